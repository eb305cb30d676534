// Products with few rows, which wait for memory: the large matrix is read once, as it lies. Who
// calls these finishes c. For *.isa.cpp files.
#pragma once
#include <optional>

#include "kernels/cpu/dot_lanes.h"
#include "kernels/cpu/gemm_problem.h"
#include "kernels/cpu/gemm_put.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

// Products of this many rows or fewer wait for memory, which is then to be read as it lies; of sums
// shorter than this, adding up a vector's lanes would take most of the time.
constexpr int64_t few_rows = 16, least_dots = 128;
// How much of the few rows stays in the first cache while columns pass them, and how much of the
// columns in the second one.
constexpr int64_t cache_bytes = 32768, second_cache_bytes = 128 << 10;

// One vector holds the sums of a tile's rows. Integers, which are seldom multiplied, have small
// tiles, as each height of a tile is code of its own.
template <class T>
constexpr int dot_rows_of = std::min(std::is_integral_v<T> ? 2 : tile_rows, lanes<T>);

// One row, by a column that is contiguous along k: a dot product, in four partial sums.
template <class E, class T> T dot_product(const T* a, const T* b, int64_t length) {
  constexpr int n = lanes<T>;
  vec<T> sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * n <= length; i += 4 * n)
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w)
      sums[w] = add_dots<E>(load(a + i + w * n), load(b + i + w * n), sums[w]);
  for (; i + n <= length; i += n) sums[0] = add_dots<E>(load(a + i), load(b + i), sums[0]);
  T total = 0;
  if constexpr (std::is_same_v<E, T>)
    for_rest(i, length, [&](int64_t rest) { total = plus_product(total, a[rest], b[rest]); });
  else if (i < length)
    sums[0] = add_dots<E>(load_part(a + i, length - i), load_part(b + i, length - i), sums[0]);
  return static_cast<T>(
      total + sum_lanes<1>((sums[0] + sums[1]) + (sums[2] + sums[3]), lane_list<RealOf<T>>)[0]);
}

// Of complex numbers: the products of equal parts, and those of unlike ones.
template <class E, class R>
std::complex<R> dot_product(const std::complex<R>* a, const std::complex<R>* b, int64_t length) {
  constexpr int n = Vector<R>::lanes;
  const R *x = reinterpret_cast<const R*>(a), *y = reinterpret_cast<const R*>(b);
  vec<R> equal[2] = {}, unlike[2] = {};
  int64_t i = 0;
  for (; i + 2 * n <= 2 * length; i += 2 * n)
#pragma GCC unroll 2
    for (int w = 0; w < 2; ++w) {
      vec<R> left = load(x + i + w * n), right = load(y + i + w * n);
      equal[w] = mul_add(left, right, equal[w]);
      unlike[w] = mul_add(left, swap_pairs(right, lane_list<R>), unlike[w]);
    }
  std::complex<R> total = 0;
  for (; i < 2 * length; i += 2) total += times(a[i / 2], b[i / 2]);
  vec<R> parts = sum_lanes<2>(equal[0] + equal[1], lane_list<R>);
  return total +
         std::complex<R>(parts[0] - parts[1], sum_lanes<1>(unlike[0] + unlike[1], lane_list<R>)[0]);
}

// `m` of `rows` rows, `depth` apart, by `columns` columns of c, from its row i and column j on.
template <class T, int rows, int columns, class E>
void dot_tile(int64_t m, const T* a, const T* b, int64_t b_col, int64_t depth, const Target<T>& to,
              int64_t i, int64_t j) {
  constexpr int n = lanes<T>;
  vec<T> sums[columns][rows] = {};
  auto step = [&](auto read) {
    vec<T> down[columns];
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j) {
      __builtin_prefetch(b + (j + columns) * b_col, 0, 2);
      down[j] = read(b + j * b_col);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      vec<T> across = read(a + r * depth);
      keep_in_register(across);  // gcc would load it again for each column
#pragma GCC unroll 8
      for (int j = 0; j < columns; ++j) sums[j][r] = add_dots<E>(across, down[j], sums[j][r]);
    }
    a += n;
    b += n;
  };
  int64_t k = depth;
  for (; k >= n; k -= n) step([](const T* p) { return load(p); });
  if (k > 0) step([k](const T* p) { return load_part(p, k); });
  T totals[columns][lanes<T>];
#pragma GCC unroll 8
  for (int c = 0; c < columns; ++c) {
    fold<1, rows>(sums[c], lane_list<RealOf<T>>);
    store(totals[c], sum_lanes<rows>(sums[c][0], lane_list<RealOf<T>>));
  }
  for (int c = 0; c < columns; ++c)
    for (int64_t r = 0; r < m; ++r) to.put(i + r, j + c, totals[c][r]);
}

// The `m` rows at `a`, which zeros follow where a tile has more.
template <class T, class E, int columns, int rows = dot_rows_of<T>>
void dot_rows(int64_t m, const T* a, const T* b, int64_t b_col, int64_t depth, const Target<T>& to,
              int64_t i, int64_t j) {
  for (; m > rows / 2; m -= rows, i += rows, a += rows * depth)
    dot_tile<T, rows, columns, E>(std::min<int64_t>(rows, m), a, b, b_col, depth, to, i, j);
  if constexpr (rows > 1)
    if (m > 0) dot_rows<T, E, columns, rows / 2>(m, a, b, b_col, depth, to, i, j);
}

template <class T> void copy_row(const T* from, int64_t step, int64_t count, T* to) {
  constexpr int64_t size = sizeof(T);
  if (step == 1)
    copy_strided(size, reinterpret_cast<const char*>(from), size, reinterpret_cast<char*>(to), size,
                 count);
  else
    for (int64_t k = 0; k < count; ++k) to[k] = from[k * step];
}

// Rows by columns that are contiguous along k: reads each column once, a vector at a time, for
// all of a few rows, whose parts of this depth stay in the first cache. More rows pass as many
// columns as stay in the second one.
template <class T, class E> void by_dot_tiles(const Problem<T>& p) {
  constexpr int64_t bytes = sizeof(T), unit = lanes<T>;
  const int64_t together = std::min(few_rows, p.m);
  int64_t rows = (p.m + dot_rows_of<T> - 1) / dot_rows_of<T> * dot_rows_of<T>;
  int64_t deepest = std::min<int64_t>(4096, cache_bytes / together) / bytes;
  int64_t depth = p.k <= deepest ? p.k : part(p.k, deepest, unit);
  int64_t columns =
      p.m <= few_rows ? p.n : second_cache_bytes / bytes / depth / tile_width * tile_width;
  // In place, rows a power of two apart would drive each other out.
  Buffer<T> packed(rows * depth);
  for (int64_t k = 0; k < p.k; k += depth) {
    const int64_t deep = std::min(depth, p.k - k);
    for (int64_t i = 0; i < p.m; ++i)
      copy_row(p.a + i * p.a_row + k * p.a_col, p.a_col, deep, packed.data() + i * deep);
    std::fill(packed.data() + p.m * deep, packed.data() + rows * deep, T(0));
    Target<T> to = p.target.part(k == 0, false);
    for (int64_t first = 0; first < p.n; first += columns)
      for (int64_t i = 0; i < p.m; i += few_rows) {
        const int64_t m = std::min(few_rows, p.m - i), last = std::min(p.n, first + columns);
        const T* a = packed.data() + i * deep;
        int64_t j = first;
        for (; j + tile_width <= last; j += tile_width)
          dot_rows<T, E, tile_width>(m, a, p.b + k + j * p.b_col, p.b_col, deep, to, i, j);
        for (; j < last; ++j)
          dot_rows<T, E, 1>(m, a, p.b + k + j * p.b_col, p.b_col, deep, to, i, j);
      }
  }
}

template <class T, class E> void by_dots(const Problem<T>& p) {
  if constexpr (!complex<T>)
    if (p.m > 1 || p.a_col != 1) return by_dot_tiles<T, E>(p);
  const T* row = p.a;
  std::optional<Buffer<T>> packed;
  if (p.a_col != 1) {
    packed.emplace(p.k);
    copy_row(p.a, p.a_col, p.k, packed->data());
    row = packed->data();
  }
  for (int64_t j = 0; j < p.n; ++j) p.target.put(0, j, dot_product<E>(row, p.b + j * p.b_col, p.k));
}

// One row of c (contiguous) from a row-major b: streams through b, four rows at a time.
template <class T> void by_rows(const Problem<T>& p) {
  const Target<T>& t = p.target;
  for (int64_t j = 0; j < p.n; ++j)
    t.c[j] = t.beta == T(0) ? T(0) : times(t.beta, t.added[j * t.added_col]);
  T* __restrict c = t.c;
  int64_t k = 0;
  for (; k + 4 <= p.k; k += 4) {
    const T *b0 = p.b + k * p.b_row, *b1 = b0 + p.b_row, *b2 = b1 + p.b_row, *b3 = b2 + p.b_row;
    const T* a = p.a + k * p.a_col;
    T a0 = times(t.alpha, a[0]), a1 = times(t.alpha, a[p.a_col]);
    T a2 = times(t.alpha, a[2 * p.a_col]), a3 = times(t.alpha, a[3 * p.a_col]);
    for (int64_t j = 0; j < p.n; ++j)
      c[j] = static_cast<T>(c[j] + (plus_product(times(a1, b1[j]), a0, b0[j]) +
                                    plus_product(times(a3, b3[j]), a2, b2[j])));
  }
  for (; k < p.k; ++k) {
    const T* b = p.b + k * p.b_row;
    T a = times(t.alpha, p.a[k * p.a_col]);
    for (int64_t j = 0; j < p.n; ++j) c[j] = plus_product(c[j], a, b[j]);
  }
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
