// What dot products of vectors are made of; for *.isa.cpp files.
#pragma once
#include <type_traits>
#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

// Adds to each lane those that stand a multiple of `apart` further on.
template <int apart, class V, int... lane>
RL_INLINE V sum_lanes(V v, std::integer_sequence<int, lane...> all) {
  constexpr int n = sizeof...(lane);
  if constexpr (apart < n) {
    v += shuffle<(lane ^ apart)...>(v, v);
    return sum_lanes<2 * apart>(v, all);
  }
  return v;
}

// Adds to each lane of the rows' vectors the one whose number differs in the bit `apart`, and keeps
// those of the row that has this bit: in the end lane r holds a sum of row r.
template <int apart, int rows, class V, int... lane>
RL_INLINE void fold(V* sums, std::integer_sequence<int, lane...> all) {
  constexpr int n = sizeof...(lane);
  if constexpr (apart < rows) {
#pragma GCC unroll 8
    for (int r = 0; r + apart < rows; r += 2 * apart) {
      V a = sums[r], b = sums[r + apart];
      sums[r] = shuffle<(lane & apart ? n + lane : lane)...>(a, b) +
                shuffle<(lane & apart ? n + lane - apart : lane + apart)...>(a, b);
    }
    fold<2 * apart, rows>(sums, all);
  }
}

struct Wide {
  vec<float> lower, upper;
};
// The halves in the lower part of a vector, and those in its upper one.
inline Wide widened(vec<float> v) {
  vec<uint16_t> bits = (vec<uint16_t>)v;
  return {widened_halves(lower_half(bits)), widened_halves(upper_half(bits))};
}

constexpr bool multiplies_pairs = vector_registers == 32;  // AVX-512 and NEON

// Pairs of bfloat16 that the processor multiplies, where has_bfloat16_products().
struct Bfloat16Pairs {};

// x * y + sum, where each lane holds an element of T or a pair of 16-bit floats or bytes E.
template <class E, class V> RL_INLINE V add_dots(V x, V y, V sum) {
  if constexpr (std::is_same_v<E, bfloat16>) {
    using Bits = vec<uint32_t>;
    auto lower = [](V v) { return (V)((Bits)v << 16); };
    auto upper = [](V v) { return (V)((Bits)v & 0xffff0000u); };
    return mul_add(upper(x), upper(y), mul_add(lower(x), lower(y), sum));
  } else if constexpr (std::is_same_v<E, half>) {
    Wide left = widened(x), right = widened(y);
    return mul_add(left.upper, right.upper, mul_add(left.lower, right.lower, sum));
  } else if constexpr (std::is_same_v<E, uint8_t>) {
    return sum + x * y + (x >> 8) * (y >> 8);  // of which the lower bytes count
  } else if constexpr (std::is_same_v<E, Bfloat16Pairs>) {
    return add_bfloat16_pairs(sum, x, y);
  } else {
    return mul_add(x, y, sum);
  }
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
