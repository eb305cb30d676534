// The heart of matrix products: sums of outer products, in registers; for *.isa.cpp files.
#pragma once
#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

// The tile of sums that registers hold where the right side comes in panels: rows, and vectors of
// columns. Two sums of each row use a factor as soon as it is there, and 12 of 16 registers hold
// sums: with tiles of 2 rows by the 4 vectors of a panel, AVX2 took 1.25 times as long.
constexpr int panel_tile_rows = vector_registers == 32 ? 8 : fused_vectors ? 6 : 4;
constexpr int panel_tile_width = 2;

// x * y + sum, whose elements are of T or groups of numbers, multiplied and added up: 2 of int16,
// or of bfloat16 if T is float, or 4 bytes, signed ones of x and unsigned ones of y.
template <class T, int bytes, int group>
[[gnu::always_inline]] inline vec<T, bytes> add_products(vec<T, bytes> sum, vec<T, bytes> x, T y) {
  if constexpr (group == 1) {
    return mul_add(x, y, sum);
  } else if constexpr (std::is_same_v<T, float>) {
    return add_bfloat16_pairs(sum, x, broadcast<vec<T, bytes>>(y));
  } else if constexpr (group == 4) {
    return add_byte_groups(sum, vec<T, bytes>{} + y, x);
  } else {
    return add_int16_pairs(sum, x, vec<T, bytes>{} + y);
  }
}

// sums[r][w] += a(r, k) * b(k)[w] for each k < depth, in order. Row r of a stands r * a_row from a,
// its next term a_col further; the vectors of b(k) stand k * b_row from b, `apart` from each other.
// ahead(b) may prefetch.
template <class T, int bytes, int group = 1, int rows, int width, class Ahead>
[[gnu::always_inline]] inline void multiply_tile(vec<T, bytes> (&sums)[rows][width], int64_t depth,
                                                 const T* a, int64_t a_row, int64_t a_col,
                                                 const T* b, int64_t b_row, Ahead ahead,
                                                 int64_t apart = Vector<T, bytes>::lanes) {
  const T* lower_a = a + 4 * a_row;  // two of them: few registers for addresses
  for (int64_t k = depth; k > 0; --k) {
    ahead(b);
    vec<T, bytes> across[width];
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) across[w] = load<T, bytes>(b + w * apart);
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

// The error of a sum of n terms, added one after the other, grows as the root of n: longer sums are
// put together from sums of so many. torch's products are as exact.
constexpr int64_t terms_together = 128;

// gcc does not see that `any` says whether there are totals. Zeros first would cost short sums
// time.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
// Sums so far, which lie in memory.
template <class T, int bytes, int rows, int width> struct PartialSums {
  vec<T, bytes> totals[rows][width];
  bool any = false;

  // The sums so far; then they begin again.
  [[gnu::always_inline]] void take(vec<T, bytes> (&sums)[rows][width]) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) {
        totals[r][w] = any ? totals[r][w] + sums[r][w] : sums[r][w];
        sums[r][w] = vec<T, bytes>{};
      }
    any = true;
  }
  [[gnu::always_inline]] void add_to(vec<T, bytes> (&sums)[rows][width]) const {
    if (any)
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int w = 0; w < width; ++w) sums[r][w] += totals[r][w];
  }
};

#pragma GCC diagnostic pop

// multiply_tile with sums that begin as zeros, in parts.
template <class T, int bytes, int group = 1, int rows, int width, class Ahead>
[[gnu::always_inline]] inline void multiply_in_parts(vec<T, bytes> (&sums)[rows][width],
                                                     int64_t depth, const T* a, int64_t a_row,
                                                     int64_t a_col, const T* b, int64_t b_row,
                                                     Ahead ahead) {
  PartialSums<T, bytes, rows, width> parts;
  for (;;) {
    int64_t deep = depth < terms_together ? depth : terms_together;
    multiply_tile<T, bytes, group>(sums, deep, a, a_row, a_col, b, b_row, ahead);
    depth -= deep;
    if (depth == 0) break;
    a += deep * a_col;
    b += deep * b_row;
    parts.take(sums);
  }
  parts.add_to(sums);
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
