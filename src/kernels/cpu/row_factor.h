// Factorisations and triangular solves of row-major matrices, on the calling thread: by halves
// down to tiles, so that nearly all work is done by matrix products.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>
#include <utility>

#include "core/interpreter.h"
#include "core/scalar.h"
#include "kernels/cpu/factor_tiles.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/lapack.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels {

// Tiles without vectors: of complex numbers, and those so small that a vector is hardly used.
template <class T> void plain_lu(const LuPanel<T>& p) {
  auto row = [&](int64_t i) { return p.a + i * p.step; };
  auto size = [](T x) {
    if constexpr (is_complex_v<T>) return std::abs(x.real()) + std::abs(x.imag());
    else return std::abs(x);
  };
  for (int64_t k = 0; k < std::min(p.rows, p.columns); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; p.exchange && i < p.rows; ++i)
      if (size(row(i)[k]) > size(row(best)[k])) best = i;
    p.pivots[k] = static_cast<int>(best) + 1;
    T top = row(best)[k];
    if (top == T(0) && *p.zero_pivot == 0) *p.zero_pivot = static_cast<int>(k) + 1;
    if (top == T(0) && p.exchange) continue;
    if (best != k) std::swap_ranges(row(k), row(k) + p.columns, row(best));
    for (int64_t i = k + 1; i < p.rows; ++i) {
      T factor = row(i)[k] /= top;
      for (int64_t j = k + 1; j < p.columns; ++j) row(i)[j] -= factor * row(k)[j];
    }
  }
}
template <class T> void plain_cholesky(const CholeskyTile<T>& t) {
  auto row = [&](int64_t i) { return t.a + i * t.step; };
  for (int64_t k = 0; k < t.n; ++k) {
    if (!(row(k)[k] > T(0))) {
      *t.zero_pivot = static_cast<int>(k) + 1;
      return;
    }
    T root = row(k)[k] = std::sqrt(row(k)[k]);
    for (int64_t j = k + 1; j < t.n; ++j) row(k)[j] /= root;
    for (int64_t i = k + 1; i < t.n; ++i)
      for (int64_t j = i; j < t.n; ++j) row(i)[j] -= row(k)[i] * row(k)[j];
  }
}
template <class T> void plain_triangle(const TriangleTile<T>& t) {
  for (int64_t step = 0; step < t.n; ++step) {
    int64_t i = t.upper ? t.n - 1 - step : step, first = t.upper ? i + 1 : 0;
    T* x = t.x + i * t.x_step;
    for (int64_t j = first; j < first + step; ++j) {
      T factor = t.a[i * t.row + j * t.column];
      for (int64_t c = 0; c < t.columns; ++c) x[c] -= factor * t.x[j * t.x_step + c];
    }
    for (int64_t c = 0; !t.unit && c < t.columns; ++c) x[c] /= t.a[i * (t.row + t.column)];
  }
}

// The same of n x n and n rows, in registers: the compiler writes out the loops. Of more than 4
// rows the choice of what changes places would be most of the code.
template <int n, class T> void whole_lu(const LuPanel<T>& p) {
  T m[n][n];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) m[i][j] = p.a[i * p.step + j];
#pragma GCC unroll 8
  for (int k = 0; k < n; ++k) {
    int best = k;
    T most = std::abs(m[k][k]);
#pragma GCC unroll 8
    for (int i = k + 1; i < n; ++i) {
      bool more = p.exchange && std::abs(m[i][k]) > most;
      best = more ? i : best, most = more ? std::abs(m[i][k]) : most;
    }
    p.pivots[k] = best + 1;
    if constexpr (n > 4) {
      if (best != k) std::swap_ranges(m[k], m[k] + n, m[best]);
    } else {
#pragma GCC unroll 8
      for (int i = k + 1; i < n; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
          T upper = m[k][j], lower = m[i][j];
          m[k][j] = best == i ? lower : upper, m[i][j] = best == i ? upper : lower;
        }
    }
    T top = m[k][k];
    if (top == T(0) && *p.zero_pivot == 0) *p.zero_pivot = k + 1;
    if (top == T(0) && p.exchange) continue;
#pragma GCC unroll 8
    for (int i = k + 1; i < n; ++i) {
      T factor = m[i][k] /= top;
#pragma GCC unroll 8
      for (int j = k + 1; j < n; ++j) m[i][j] -= factor * m[k][j];
    }
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) p.a[i * p.step + j] = m[i][j];
}
template <int n, class T> void whole_triangle(const TriangleTile<T>& t) {
  // An upper one from its last row on.
  const int64_t sign = t.upper ? -1 : 1, last = t.upper ? n - 1 : 0;
  const T* a = t.a + last * (t.row + t.column);
  T *to = t.x + last * t.x_step, m[n][n];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) m[i][j] = a[sign * (i * t.row + j * t.column)];
  for (int64_t c = 0; c < t.columns; ++c) {
    T x[n];
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) {
      x[i] = to[sign * i * t.x_step + c];
#pragma GCC unroll 8
      for (int j = 0; j < i; ++j) x[i] -= m[i][j] * x[j];
      if (!t.unit) x[i] /= m[i][i];
      to[sign * i * t.x_step + c] = x[i];
    }
  }
}

inline constexpr int64_t few = 7;  // rows; LU of 3 of floats: 45 to 15 ns, of 5 83 to 40
inline constexpr int64_t few_of_plain_loops = 4;

// f(n) with n, of 2 to `few`, as a constant.
template <class F> void with_few(int64_t n, F&& f) {
  switch (n) {
    case 2: return f(std::integral_constant<int, 2>{});
    case 3: return f(std::integral_constant<int, 3>{});
    case 4: return f(std::integral_constant<int, 4>{});
    case 5: return f(std::integral_constant<int, 5>{});
    case 6: return f(std::integral_constant<int, 6>{});
    default: return f(std::integral_constant<int, few>{});
  }
}
template <class T> void few_lu(const LuPanel<T>& p) {
  if (p.rows != p.columns || p.rows < 2) return plain_lu(p);
  with_few(p.rows, [&](auto n) { whole_lu<decltype(n)::value>(p); });
}
template <class T> void few_triangle(const TriangleTile<T>& t) {
  if (t.n < 2) return plain_triangle(t);
  with_few(t.n, [&](auto n) { whole_triangle<decltype(n)::value>(t); });
}

template <class T> bool is_few(const LuPanel<T>& p) {
  return p.rows <= (p.rows == p.columns ? few : few_of_plain_loops);
}
inline void run_tile(const LuPanel<float>& p) { is_few(p) ? few_lu(p) : lu_panel_f32(p); }
inline void run_tile(const LuPanel<double>& p) { is_few(p) ? few_lu(p) : lu_panel_f64(p); }
inline void run_tile(const CholeskyTile<float>& t) {
  t.n <= few_of_plain_loops ? plain_cholesky(t) : cholesky_tile_f32(t);
}
inline void run_tile(const CholeskyTile<double>& t) {
  t.n <= few_of_plain_loops ? plain_cholesky(t) : cholesky_tile_f64(t);
}
template <class T> bool is_few(const TriangleTile<T>& t) {
  return t.n <= few && t.columns <= 5 && t.n * t.columns <= 25;  // more fill vectors
}
inline void run_tile(const TriangleTile<float>& t) {
  is_few(t) ? few_triangle(t) : triangle_tile_f32(t);
}
inline void run_tile(const TriangleTile<double>& t) {
  is_few(t) ? few_triangle(t) : triangle_tile_f64(t);
}
template <class R> void run_tile(const LuPanel<std::complex<R>>& p) { plain_lu(p); }
template <class R> void run_tile(const TriangleTile<std::complex<R>>& t) { plain_triangle(t); }

// Half of n, in whole tiles.
inline int64_t first_half(int64_t n, int64_t tile) { return (n / 2 + tile - 1) / tile * tile; }

// A part of a matrix. That of b and c of subtract_product has column_step 1.
template <class T> Matrix<T> part_of(const Matrix<T>& m, int64_t i, int64_t j, int64_t rows,
                                     int64_t columns) {
  return {m.data + i * m.row_step + j * m.column_step, rows, columns, m.row_step, m.column_step};
}

template <class T> Matrix<T> turned(const Matrix<T>& m) {
  return {m.data, m.columns, m.rows, m.column_step, m.row_step};
}
// to(j, i) = from(i, j), fast where both have column_step 1.
template <class T> void turn_matrix(const Matrix<T>& from, const Matrix<T>& to) {
  if (from.rows <= few && from.columns <= few) {
    for (int64_t i = 0; i < from.rows; ++i)
      for (int64_t j = 0; j < from.columns; ++j) to(j, i) = from(i, j);
    return;
  }
  constexpr int64_t size = sizeof(T);
  transpose(size, reinterpret_cast<const char*>(from.data), from.row_step * size,
            from.column_step * size, reinterpret_cast<char*>(to.data), to.row_step * size,
            to.column_step * size, from.rows, from.columns, false);
}
template <class T> Matrix<const T> reading(const Matrix<T>& m) {
  return {m.data, m.rows, m.columns, m.row_step, m.column_step};
}
template <class T> void conjugate(const Matrix<T>& m) {
  if constexpr (is_complex_v<T>)
    for (int64_t i = 0; i < m.rows; ++i)
      for (int64_t j = 0; j < m.columns; ++j) m(i, j) = std::conj(m(i, j));
}

// c = alpha a b + beta c, in parts of a few tenths of a second, between which Ctrl-C ends it.
template <class T>
void add_product(double alpha, const Matrix<const T>& a, const Matrix<const T>& b, double beta,
                 const Matrix<T>& c) {
  if (c.rows == 0 || c.columns == 0 || a.columns == 0) return;
  constexpr double work_of_part = 3e9;
  double work = double(c.rows) * double(c.columns) * double(a.columns);
  if (work >= work_of_part) Interruption::ask();
  int64_t parts = 1 + static_cast<int64_t>(work / work_of_part);
  int64_t step = std::max<int64_t>(c.rows / parts / 64 * 64 + 64, 256);  // each packs b again
  GemmProblem p;
  p.dtype = dtype_of<T>;
  p.n = c.columns, p.k = a.columns;
  p.b = b.data;
  p.a_row = a.row_step, p.a_col = a.column_step;
  p.b_row = b.row_step, p.b_col = b.column_step;
  p.c_row = c.row_step, p.c_col = c.column_step;
  p.alpha = Scalar(alpha), p.beta = Scalar(beta);
  for (int64_t i = 0; i < c.rows; i += step) {
    if (i > 0) Interruption::ask();
    p.m = std::min(step, c.rows - i);
    p.a = a.data + i * a.row_step, p.c = c.data + i * c.row_step;
    gemm_tiles(p);
  }
}
template <class T>
void subtract_product(const Matrix<const T>& a, const Matrix<T>& b, const Matrix<T>& c) {
  add_product<T>(-1, a, reading(b), 1, c);
}

// x, of column_step 1, becomes the solution of a x = b that it held.
template <class T>
void solve_triangle(const Matrix<const T>& a, bool upper, bool unit, const Matrix<T>& x) {
  constexpr int64_t tile = triangle_rows;
  int64_t n = a.rows;
  bool vector = x.columns == 1 && x.row_step == 1 && (a.row_step == 1 || a.column_step == 1);
  if (n <= tile || vector)
    return run_tile(TriangleTile<T>{a.data, a.row_step, a.column_step, n, upper, unit, x.data,
                                    x.row_step, x.columns});
  int64_t half = first_half(n, tile), rest = n - half;
  Matrix<T> first = part_of(x, 0, 0, half, x.columns), last = part_of(x, half, 0, rest, x.columns);
  Matrix<const T> a_first = part_of(a, 0, 0, half, half),
                  a_last = part_of(a, half, half, rest, rest);
  if (upper) {
    solve_triangle(a_last, upper, unit, last);
    subtract_product(part_of(a, 0, half, half, rest), last, first);
    solve_triangle(a_first, upper, unit, first);
  } else {
    solve_triangle(a_first, upper, unit, first);
    subtract_product(part_of(a, half, 0, rest, half), first, last);
    solve_triangle(a_last, upper, unit, last);
  }
}

// Rows k and pivots[k] change places, for k from `first` on.
template <class T>
void exchange_rows(const Matrix<T>& m, const int* pivots, int64_t first, int64_t last) {
  for (int64_t k = first; k < last; ++k)
    if (pivots[k] - 1 != k)
      std::swap_ranges(m.data + k * m.row_step, m.data + k * m.row_step + m.columns,
                       m.data + (pivots[k] - 1) * m.row_step);
}

template <class T> class RowLu {
 public:
  RowLu(int64_t rows, bool exchange)
      : packed_(std::max<int64_t>(rows, 1) * panel_width), exchange_(exchange) {}

  // As LAPACK's getrf; the 1-based place of the first zero pivot, or 0.
  int factor(const Matrix<T>& a, int* pivots) const {
    int64_t square = std::min(a.rows, a.columns);
    int zero_pivot = factor_tall(part_of(a, 0, 0, a.rows, square), pivots);
    if (a.columns > square) {
      Matrix<T> rest = part_of(a, 0, square, a.rows, a.columns - square);
      exchange_rows(rest, pivots, 0, square);
      solve_triangle<T>(reading(part_of(a, 0, 0, square, square)), false, true, rest);
    }
    return zero_pivot;
  }

 private:
  int factor_tall(const Matrix<T>& a, int* pivots) const {
    int64_t rows = a.rows, columns = a.columns;
    int zero_pivot = 0;
    if (columns <= panel_width) {
      if (columns > 0)
        run_tile(LuPanel<T>{a.data, rows, columns, a.row_step, pivots, exchange_, &zero_pivot,
                            packed_.data()});
      return zero_pivot;
    }
    int64_t left = first_half(columns, panel_width);
    Matrix<T> right = part_of(a, 0, left, rows, columns - left);
    Matrix<T> above = part_of(right, 0, 0, left, right.columns),
              below = part_of(right, left, 0, rows - left, right.columns);
    zero_pivot = factor_tall(part_of(a, 0, 0, rows, left), pivots);
    exchange_rows(right, pivots, 0, left);
    solve_triangle<T>(reading(part_of(a, 0, 0, left, left)), false, true, above);
    subtract_product<T>(reading(part_of(a, left, 0, rows - left, left)), above, below);
    int later = factor_tall(below, pivots + left);
    for (int64_t k = left; k < columns; ++k) pivots[k] += static_cast<int>(left);
    exchange_rows(part_of(a, 0, 0, rows, left), pivots, left, columns);
    return zero_pivot || !later ? zero_pivot : later + static_cast<int>(left);
  }

  Buffer<T> packed_;
  bool exchange_;
};

// x becomes the solution of L U x = P x.
template <class T>
void solve_lu(const Matrix<const T>& lu, const int* pivots, const Matrix<T>& x) {
  exchange_rows(x, pivots, 0, lu.rows);
  solve_triangle(lu, false, true, x);
  solve_triangle(lu, true, false, x);
}

// Of (L U)^T x = x P, in the other order.
template <class T>
void solve_lu_transposed(const Matrix<const T>& lu, const int* pivots, const Matrix<T>& x) {
  solve_triangle(turned(lu), false, false, x);
  solve_triangle(turned(lu), true, true, x);
  for (int64_t k = lu.rows - 1; k >= 0; --k) exchange_rows(x, pivots, k, k + 1);
}

// Copies between matrices of any steps.
template <class T> void copy_matrix(const Matrix<T>& from, const Matrix<T>& to) {
  if (from.column_step == 1 && to.column_step == 1) {
    if (from.row_step == from.columns && to.row_step == to.columns)
      return static_cast<void>(std::copy_n(from.data, from.rows * from.columns, to.data));
    for (int64_t i = 0; i < from.rows; ++i)
      std::copy_n(from.data + i * from.row_step, from.columns, to.data + i * to.row_step);
    return;
  }
  if (to.row_step != 1) return turn_matrix(turned(from), to);
  turn_matrix(from, turned(to));
}

// Scratch memory for a matrix in rows.
template <class T> class Rows {
 public:
  Rows(int64_t rows, int64_t columns)
      : buffer_(std::max<int64_t>(rows * columns, 1)),
        matrix_{buffer_.data(), rows, columns, columns, 1} {}
  const Matrix<T>& matrix() const { return matrix_; }
  Matrix<const T> read() const { return reading(matrix_); }

 private:
  Buffer<T> buffer_;
  Matrix<T> matrix_;
};

}  // namespace rl::kernels
