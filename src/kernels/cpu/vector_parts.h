// Parts of a loop of which each is a whole number of vectors.
//
// Where the compiler does not know that, it adds to the loop one for half a vector and one for
// single elements, each with the whole of the formula: two thirds of the code, and slower for what
// is left than a vector is. Here what is left at the end is filled up with copies of its first
// element, which any formula bears, and its results are put where they belong.
#pragma once
#include <cstdint>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {

template <class T> inline constexpr int64_t lanes = Vector<T>::lanes;

// Of `count` elements: parts of at most `longest` in whole vectors of n, and what is left of them.
// Where that is a constant, parts prove far or near, and the first one, which is expected to be
// near, is short: lgamma of numbers of both signs took 1.5 times as long.
template <int64_t n> struct VectorParts {
  int64_t begin = 0, taken = 0, left, longest;

  RL_INLINE VectorParts(int64_t count, int64_t longest) : left(count), longest(longest) {
    take();
    if (__builtin_constant_p(longest) && taken > longest / 8) taken = longest / 8;
  }

  RL_INLINE void advance() {
    begin += taken;
    left -= taken;
    take();
  }

  RL_INLINE bool is_filled() const { return taken < n; }
  // How many elements to compute; `& -n` shows the compiler that they are whole vectors.
  RL_INLINE int64_t whole() const { return is_filled() ? n : taken & -n; }

  // Where the operand's part is: copied to `held` if it has to be filled up.
  template <class T> RL_INLINE const T* operand(const T* all, T* held) const {
    const T* from = all + begin;
    if (!is_filled()) return from;
    store(held, broadcast<vec<T>>(*from));
    store_part(held, load_part(from, taken), taken);
    return held;
  }
  // Or if it is `to`, which is written before the part is read once more.
  template <class T> RL_INLINE const T* operand(const T* all, T* held, const void* to) const {
    const T* from = operand(all, held);
    if (static_cast<const void*>(from) != to) return from;
    __builtin_memcpy(held, from, static_cast<size_t>(taken) * sizeof(T));
    return held;
  }

  template <class T> RL_INLINE void put(const T* held, T* all) const {
    if (is_filled()) store_part(all + begin, load(held), taken);
  }

 private:
  RL_INLINE void take() {
    const int64_t most = left < longest ? left : longest;
    taken = most < n ? most : most & -n;
  }
};

}  // namespace rl::kernels::RL_ISA
