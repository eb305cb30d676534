#include "kernels/gemm_small.h"

#include <cstring>

#include "kernels/cpu/simd.h"
#include "kernels/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int block_rows = 8;  // with 32 registers
#else
constexpr int block_rows = 4;
#endif

// Integers multiply as unsigned ones, whose overflow is defined.
template <class T, bool = std::is_integral_v<T>> struct Wrapping {
  using type = T;
};
template <class T> struct Wrapping<T, true> {
  using type = std::make_unsigned_t<T>;
};

// Narrow unsigned integers would be promoted to int, whose overflow is not defined.
template <class T> T times(T a, T b) {
  using Wide = std::common_type_t<T, unsigned>;
  return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
}

template <class T> struct Problem {
  int64_t m, n, k;
  const T *a, *b;
  T* c;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  T alpha, beta;
};

// Adds alpha * value into c, which beta scales first unless it is 0.
template <class T> void put(T* c, T value, T alpha, T beta) {
  T sum = times(alpha, value);
  *c = beta == T(0) ? sum : static_cast<T>(sum + times(beta, *c));
}

// `rows` rows by `width` vectors of c, from a row-major b whose rows are at least that wide.
template <class T, int bytes, int rows, int width>
void tile(const Problem<T>& p, const T* b, int64_t ldb, int64_t i, int64_t j) {
  using V = vec<T, bytes>;
  constexpr int lanes = Vector<T, bytes>::lanes;
  V sums[rows][width] = {};
  const T* a = p.a + i * p.a_row;
  for (int64_t k = 0; k < p.k; ++k) {
    const T* b_row = b + k * ldb;
    V right[width];
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) right[w] = load<T, bytes>(b_row + w * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      T left = a[r * p.a_row + k * p.a_col];
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) sums[r][w] += right[w] * left;
    }
  }
  bool whole = p.c_col == 1 && j + width * lanes <= p.n;
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    T* c = p.c + (i + r) * p.c_row + j * p.c_col;
    if (whole) {
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) {
        V sum = sums[r][w] * p.alpha;
        if (p.beta != T(0)) sum += load<T, bytes>(c + w * lanes) * p.beta;
        store(c + w * lanes, sum);
      }
    } else {
      T values[width * lanes];
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) store(values + w * lanes, sums[r][w]);
      for (int64_t x = 0; x < width * lanes && j + x < p.n; ++x)
        put(c + x * p.c_col, values[x], p.alpha, p.beta);
    }
  }
}

template <class T, int width, int bytes = vector_bytes, int rows = block_rows>
void column_block(const Problem<T>& p, const T* b, int64_t ldb, int64_t j, int64_t i = 0) {
  for (; i + rows <= p.m; i += rows) tile<T, bytes, rows, width>(p, b, ldb, i, j);
  if constexpr (rows > 1)
    if (i < p.m) column_block<T, width, bytes, rows / 2>(p, b, ldb, j, i);
}

// Columns [from, p.n) of b as rows padded with zeros to `width`.
template <class T> void pack(const Problem<T>& p, int64_t from, int64_t width, T* packed) {
  int64_t used = p.n - from;
  const T* b = p.b + from * p.b_col;
  if (p.b_col == 1) {
    for (int64_t k = 0; k < p.k; ++k)
      for (int64_t j = 0; j < used; ++j) packed[k * width + j] = b[k * p.b_row + j];
  } else {
    for (int64_t j = 0; j < used; ++j)
      for (int64_t k = 0; k < p.k; ++k) packed[k * width + j] = b[k * p.b_row + j * p.b_col];
  }
  if (used < width)
    for (int64_t k = 0; k < p.k; ++k)
      for (int64_t j = used; j < width; ++j) packed[k * width + j] = T(0);
}

// Reads whole vectors of b where it has them, and packs the rest.
template <class T> void by_tiles(const Problem<T>& p) {
  constexpr int lanes = Vector<T>::lanes;
  int64_t in_place = p.b_col == 1 ? p.n / lanes * lanes : 0, j = 0;
  for (; j + 2 * lanes <= in_place; j += 2 * lanes) column_block<T, 2>(p, p.b + j, p.b_row, j);
  if (j < in_place) column_block<T, 1>(p, p.b + j, p.b_row, j);
  if (in_place == p.n) return;
  if (p.b_col == 1 && p.n - in_place == lanes / 2)
    return column_block<T, 1, vector_bytes / 2>(p, p.b + in_place, p.b_row, in_place);

  int64_t width = (p.n - in_place + lanes - 1) / lanes * lanes;
  int64_t bytes = p.k * width * static_cast<int64_t>(sizeof(T));
  alignas(64) char on_stack[16384];
  bool fits = bytes <= static_cast<int64_t>(sizeof on_stack);
  Workspace heap(fits ? 0 : bytes);
  T* packed = fits ? reinterpret_cast<T*>(on_stack) : heap.as<T>();
  pack(p, in_place, width, packed);
  for (j = 0; j + 2 * lanes <= width; j += 2 * lanes)
    column_block<T, 2>(p, packed + j, width, in_place + j);
  if (j < width) column_block<T, 1>(p, packed + j, width, in_place + j);
}

// Both operands contiguous along k: each element of c is a dot product, in four partial sums.
template <class T> T dot_product(const T* a, const T* b, int64_t n) {
  constexpr int lanes = Vector<T>::lanes;
  vec<T> sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) sums[w] += load(a + i + w * lanes) * load(b + i + w * lanes);
  for (; i + lanes <= n; i += lanes) sums[0] += load(a + i) * load(b + i);
  vec<T> sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  T total = 0;
  for (; i < n; ++i) total = static_cast<T>(total + times(a[i], b[i]));
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  return static_cast<T>(total + sum[0]);
}

template <class T> void by_dots(const Problem<T>& p) {
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.m; ++i)
      put(p.c + i * p.c_row + j * p.c_col, dot_product(p.a + i * p.a_row, p.b + j * p.b_col, p.k),
          p.alpha, p.beta);
}

// One row of c (contiguous) from a row-major b: streams through b, four rows at a time.
template <class T> void by_rows(const Problem<T>& p) {
  T* __restrict c = p.c;
  if (p.beta == T(0)) std::memset(static_cast<void*>(c), 0, static_cast<size_t>(p.n) * sizeof(T));
  else if (p.beta != T(1))
    for (int64_t j = 0; j < p.n; ++j) c[j] = times(c[j], p.beta);
  int64_t k = 0;
  for (; k + 4 <= p.k; k += 4) {
    const T *b0 = p.b + k * p.b_row, *b1 = b0 + p.b_row, *b2 = b1 + p.b_row, *b3 = b2 + p.b_row;
    const T* a = p.a + k * p.a_col;
    T a0 = times(p.alpha, a[0]), a1 = times(p.alpha, a[p.a_col]);
    T a2 = times(p.alpha, a[2 * p.a_col]), a3 = times(p.alpha, a[3 * p.a_col]);
    for (int64_t j = 0; j < p.n; ++j)
      c[j] = static_cast<T>(
          c[j] + ((times(a0, b0[j]) + times(a1, b1[j])) + (times(a2, b2[j]) + times(a3, b3[j]))));
  }
  for (; k < p.k; ++k) {
    const T* b = p.b + k * p.b_row;
    T a = times(p.alpha, p.a[k * p.a_col]);
    for (int64_t j = 0; j < p.n; ++j) c[j] = static_cast<T>(c[j] + times(a, b[j]));
  }
}

template <class T> void solve(const GemmProblem& g) {
  using W = typename Wrapping<T>::type;
  Problem<W> p{g.m,
               g.n,
               g.k,
               static_cast<const W*>(g.a),
               static_cast<const W*>(g.b),
               static_cast<W*>(g.c),
               g.a_row,
               g.a_col,
               g.b_row,
               g.b_col,
               g.c_row,
               g.c_col,
               static_cast<W>(g.alpha.to<T>()),
               static_cast<W>(g.beta.to<T>())};
  if (p.n < p.m && p.n < 4) {  // c^T = b^T a^T: few rows, which the special cases below expect
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    std::swap(p.a_row, p.b_col);
    std::swap(p.a_col, p.b_row);
    std::swap(p.c_row, p.c_col);
  }
  if (p.m < 4 && p.a_col == 1 && p.b_row == 1) return by_dots(p);
  if (p.m == 1 && p.b_col == 1 && (p.c_col == 1 || p.n == 1) && p.n >= 64) return by_rows(p);
  by_tiles(p);
}

}  // namespace

void gemm_small(const GemmProblem& problem) {
  visit<float, double, int64_t, int32_t, uint8_t, int8_t, int16_t>(
      "matmul", problem.dtype, [&](auto tag) { solve<typename decltype(tag)::type>(problem); });
}

}  // namespace rl::kernels::RL_ISA
