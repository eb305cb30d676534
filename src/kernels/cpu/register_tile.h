// The heart of matrix products: sums of outer products, in registers; for *.isa.cpp files.
#pragma once
#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

// x * y + sum, whose elements are of T or groups of numbers, multiplied and added up: 2 of int16,
// or of bfloat16 if T is float, or 4 bytes, unsigned ones of x and signed ones of y.
template <class T, int bytes, int group>
[[gnu::always_inline]] inline vec<T, bytes> add_products(vec<T, bytes> sum, vec<T, bytes> x, T y) {
  if constexpr (group == 1) {
    return mul_add(x, y, sum);
  } else if constexpr (std::is_same_v<T, float>) {
#if defined(__AVX512F__)  // and BF16, as the caller has found out
    vec<T, bytes> all;
    if constexpr (bytes == 64) all = (vec<T, bytes>)_mm512_set1_ps(y);
    else all = (vec<T, bytes>)_mm256_set1_ps(y);
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(all));
#endif
    return sum;
  } else if constexpr (group == 4) {
#if defined(__AVX512F__)  // and VNNI, as the caller has found out
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(vec<T, bytes>{} + y));
#endif
    return sum;
  } else {
    using V = vec<T, bytes>;
    V all = V{} + y;
#if defined(__AVX512BW__)
    if constexpr (bytes == 64) return sum + (V)_mm512_madd_epi16((__m512i)x, (__m512i)all);
#endif
#if defined(__AVX2__)
    if constexpr (bytes == 32) return sum + (V)_mm256_madd_epi16((__m256i)x, (__m256i)all);
#endif
    if constexpr (bytes == 16) return sum + (V)_mm_madd_epi16((__m128i)x, (__m128i)all);
    using Signed = vec<int32_t, bytes>;
    auto low = [](V v) { return (V)((Signed)(v << 16) >> 16); };
    auto high = [](V v) { return (V)((Signed)v >> 16); };
    return sum + low(x) * low(all) + high(x) * high(all);
  }
}

// sums[r][w] += a(r, k) * b(k)[w] for each k < depth, in order. Row r of a stands r * a_row from a,
// its next term a_col further; the vectors of b(k) stand k * b_row from b. ahead(b) may prefetch.
template <class T, int bytes, int group = 1, int rows, int width, class Ahead>
[[gnu::always_inline]] inline void multiply_tile(vec<T, bytes> (&sums)[rows][width], int64_t depth,
                                                 const T* a, int64_t a_row, int64_t a_col,
                                                 const T* b, int64_t b_row, Ahead ahead) {
  constexpr int n = Vector<T, bytes>::lanes;
  const T* lower_a = a + 4 * a_row;  // two of them: few registers for addresses
  for (int64_t k = depth; k > 0; --k) {
    ahead(b);
    vec<T, bytes> across[width];
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) across[w] = load<T, bytes>(b + w * n);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      T down = r < 4 ? a[r * a_row] : lower_a[(r - 4) * a_row];
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w)
        sums[r][w] = add_products<T, bytes, group>(sums[r][w], across[w], down);
    }
    a += a_col;
    lower_a += a_col;
    b += b_row;
  }
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
