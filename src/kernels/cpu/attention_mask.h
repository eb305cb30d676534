// Which keys a query attends to: of a block of them, of rows of scores, and of rows of weights, of
// which dropout keeps some. For *.isa.cpp files.
#pragma once
#include <limits>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/lanes.h"
#include "math/math.h"

namespace rl::kernels::RL_ISA {
namespace {

// Keys beyond these no query of the block attends to.
inline int64_t reach(const AttentionHead& h, int64_t first, int64_t count) {
  return h.causal && first + count < h.keys ? first + count : h.keys;
}

// f(j, element) for elements [0, n) of a row of a matrix, which most often are contiguous.
template <class M, class F> RL_INLINE void for_row(const AttentionMatrix& m, int64_t at, int64_t n,
                                                   F f) {
  const M* row = static_cast<const M*>(m.data) + at;
  if (m.column == 1)
    for (int64_t j = 0; j < n; ++j) f(j, row[j]);
  else
    for (int64_t j = 0; j < n; ++j) f(j, row[j * m.column]);
}

// x or -inf, by bits: gcc makes a jump of a choice.
template <class T> RL_INLINE T if_allowed(T x, bool allowed) {
  using Int = typename math::Format<T>::Int;
  Int keep = -static_cast<Int>(allowed);
  return math::bit_cast<T>((math::bit_cast<Int>(x) & keep) |
                           (math::bit_cast<Int>(-std::numeric_limits<T>::infinity()) & ~keep));
}

// Of a row of weights, or of their gradients, those that dropout keeps.
template <class T>
void drop(const AttentionHead& h, int64_t query, int64_t from, int64_t columns, T* row) {
  if (!h.kept.data) return;
  using Int = typename math::Format<T>::Int;  // by bits, as above
  Int scale = math::bit_cast<Int>(static_cast<T>(h.kept_scale));
  for_row<Bool>(
      h.kept, query * h.kept.row + from * h.kept.column, columns,
      [=](int64_t j, bool kept) { row[j] *= math::bit_cast<T>(scale & -static_cast<Int>(kept)); });
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
