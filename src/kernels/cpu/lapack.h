// LAPACK by element type, column-major, and the matrices of a batch in that order.
#pragma once
#include <algorithm>
#include <complex>
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#define LAPACK_COMPLEX_CUSTOM
#include <cblas.h>
#include <lapacke.h>

#include "kernels/cpu/threads.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {

// The routines of one element type, under the names they have in common.
template <class T> struct Lapack;

#define RL_LAPACK(T, R, p, hermitian, unitary)                                                    \
  template <> struct Lapack<T> {                                                                  \
    static int potrf(char uplo, int n, T* a, int lda) {                                           \
      return scipy_LAPACKE_##p##potrf(LAPACK_COL_MAJOR, uplo, n, a, lda);                         \
    }                                                                                             \
    static int ldl_factor(bool conjugated, int n, T* a, int lda, int* pivots) {                   \
      auto f = conjugated ? &scipy_LAPACKE_##p##hermitian##trf : &scipy_LAPACKE_##p##sytrf;       \
      return f(LAPACK_COL_MAJOR, 'L', n, a, lda, pivots);                                         \
    }                                                                                             \
    static int ldl_solve(bool conjugated, int n, int k, const T* a, int lda, const int* pivots,   \
                         T* b, int ldb) {                                                         \
      auto f = conjugated ? &scipy_LAPACKE_##p##hermitian##trs : &scipy_LAPACKE_##p##sytrs;       \
      return f(LAPACK_COL_MAJOR, 'L', n, k, a, lda, pivots, b, ldb);                              \
    }                                                                                             \
    static int geqrf(int m, int n, T* a, int lda, T* tau) {                                       \
      return scipy_LAPACKE_##p##geqrf(LAPACK_COL_MAJOR, m, n, a, lda, tau);                       \
    }                                                                                             \
    static int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {                          \
      return scipy_LAPACKE_##p##unitary##gqr(LAPACK_COL_MAJOR, m, n, k, a, lda, tau);             \
    }                                                                                             \
    static int ormqr(char side, char op, int m, int n, int k, const T* a, int lda, const T* tau,  \
                     T* c, int ldc) {                                                             \
      return scipy_LAPACKE_##p##unitary##mqr(LAPACK_COL_MAJOR, side, op, m, n, k, a, lda, tau, c, \
                                             ldc);                                                \
    }                                                                                             \
    static int eigh(char job, char uplo, int n, T* a, int lda, R* w) {                            \
      return scipy_LAPACKE_##p##hermitian##evd(LAPACK_COL_MAJOR, job, uplo, n, a, lda, w);        \
    }                                                                                             \
    static int gesdd(char job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vt,           \
                     int ldvt) {                                                                  \
      return scipy_LAPACKE_##p##gesdd(LAPACK_COL_MAJOR, job, m, n, a, lda, s, u, ldu, vt, ldvt);  \
    }                                                                                             \
    static int gesvd(char job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vt, int ldvt, \
                     R* superdiagonal) {                                                          \
      return scipy_LAPACKE_##p##gesvd(LAPACK_COL_MAJOR, job, job, m, n, a, lda, s, u, ldu, vt,    \
                                      ldvt, superdiagonal);                                       \
    }                                                                                             \
    static int gels(int m, int n, int k, T* a, int lda, T* b, int ldb) {                          \
      return scipy_LAPACKE_##p##gels(LAPACK_COL_MAJOR, 'N', m, n, k, a, lda, b, ldb);             \
    }                                                                                             \
    static int gelsy(int m, int n, int k, T* a, int lda, T* b, int ldb, int* pivots, R rcond,     \
                     int* rank) {                                                                 \
      return scipy_LAPACKE_##p##gelsy(LAPACK_COL_MAJOR, m, n, k, a, lda, b, ldb, pivots, rcond,   \
                                      rank);                                                      \
    }                                                                                             \
    static int gelsd(int m, int n, int k, T* a, int lda, T* b, int ldb, R* s, R rcond,            \
                     int* rank) {                                                                 \
      return scipy_LAPACKE_##p##gelsd(LAPACK_COL_MAJOR, m, n, k, a, lda, b, ldb, s, rcond, rank); \
    }                                                                                             \
    static int gelss(int m, int n, int k, T* a, int lda, T* b, int ldb, R* s, R rcond,            \
                     int* rank) {                                                                 \
      return scipy_LAPACKE_##p##gelss(LAPACK_COL_MAJOR, m, n, k, a, lda, b, ldb, s, rcond, rank); \
    }                                                                                             \
  };
RL_LAPACK(float, float, s, sy, or)
RL_LAPACK(double, double, d, sy, or)
RL_LAPACK(complex64, float, c, he, un)
RL_LAPACK(complex128, double, z, he, un)
#undef RL_LAPACK

// Where one matrix of a batch lies.
template <class T> struct Matrix {
  T* data;
  int64_t rows, columns, row_step, column_step;
  T& operator()(int64_t i, int64_t j) const { return data[i * row_step + j * column_step]; }
};

// First element of item `index` of a batch whose items have `inner` dims.
template <class T> T* item_of(const View& v, int64_t index, int64_t inner) {
  if (v.ndim == inner + 1) return v.ptr<T>() + index * v.strides[0];  // without a division
  int64_t at = 0;
  for (int64_t d = v.ndim - inner - 1; d >= 0; --d) {
    at += index % v.sizes[d] * v.strides[d];
    index /= v.sizes[d];
  }
  return v.ptr<T>() + at;
}
template <class T> Matrix<T> matrix_of(const View& v, int64_t index) {
  int64_t d = v.ndim;
  return {item_of<T>(v, index, 2), v.sizes[d - 2], v.sizes[d - 1], v.strides[d - 2],
          v.strides[d - 1]};
}
template <class T> void store_vector(const T* from, const View& v, int64_t index) {
  T* to = item_of<T>(v, index, 1);
  for (int64_t i = 0; i < v.sizes[v.ndim - 1]; ++i) to[i * v.strides[v.ndim - 1]] = from[i];
}
template <class T> void load_vector(const View& v, int64_t index, T* to) {
  const T* from = item_of<T>(v, index, 1);
  for (int64_t i = 0; i < v.sizes[v.ndim - 1]; ++i) to[i] = from[i * v.strides[v.ndim - 1]];
}

// A column-major matrix in scratch memory.
template <class T> class Columns {
 public:
  Columns(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns), buffer_(std::max<int64_t>(rows * columns, 1)) {}
  int rows() const { return static_cast<int>(rows_); }
  int columns() const { return static_cast<int>(columns_); }
  int ld() const { return std::max(rows(), 1); }  // LAPACK refuses 0
  T* data() const { return buffer_.data(); }
  T& operator()(int64_t i, int64_t j) const { return buffer_[i + j * rows_]; }

  // Copies the part of `m` that fits; `transposed` exchanges rows and columns.
  void load(Matrix<T> m, bool transposed = false) const {
    if (transposed) m = {m.data, m.columns, m.rows, m.column_step, m.row_step};
    int64_t rows = std::min(rows_, m.rows), columns = std::min(columns_, m.columns);
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) (*this)(i, j) = m(i, j);
  }
  void store(Matrix<T> m, bool transposed = false) const {
    if (transposed) m = {m.data, m.columns, m.rows, m.column_step, m.row_step};
    int64_t rows = std::min(rows_, m.rows), columns = std::min(columns_, m.columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) m(i, j) = (*this)(i, j);
  }
  // Algorithms that iterate until they converge never do on an infinity or NaN.
  bool is_finite() const {
    return sum_of_zeros([](real_t<T> x) { return x * real_t<T>(0); }) == real_t<T>(0);
  }
  bool has_nan() const {
    return sum_of_zeros([](real_t<T> x) { return x == x ? real_t<T>(0) : real_t<T>(1); }) !=
           real_t<T>(0);
  }
  void conjugate() const {
    if constexpr (is_complex_v<T>)
      for (int64_t i = 0; i < rows_ * columns_; ++i) buffer_[i] = std::conj(buffer_[i]);
  }

 private:
  template <class F> real_t<T> sum_of_zeros(F f) const {
    const auto* parts = reinterpret_cast<const real_t<T>*>(data());
    real_t<T> sum(0);
    for (int64_t i = 0; i < rows_ * columns_ * int64_t(sizeof(T) / sizeof(real_t<T>)); ++i)
      sum += f(parts[i]);
    return sum;
  }

  int64_t rows_, columns_;
  Buffer<T> buffer_;
};

inline int64_t batch_count(const View& v, int64_t inner) {
  int64_t count = 1;
  for (int64_t d = 0; d < v.ndim - inner; ++d) count *= v.sizes[d];
  return count;
}

// f(TypeTag, begin, end) for parts of the batch of `a`, which is split over threads.
template <class F> void for_matrices(const char* op, const View& a, F&& f) {
  int64_t rows = a.sizes[a.ndim - 2], columns = a.sizes[a.ndim - 1];
  check(std::max(rows, columns) <= INT32_MAX / 4, op, ": a matrix of ", rows, " by ", columns,
        " is too large");
  static const bool nans_pass =
      (scipy_LAPACKE_set_nancheck(0), true);  // they give NaNs, not errors
  static_cast<void>(nans_pass);
  int64_t work = std::max<int64_t>(rows * columns * std::min(rows, columns), 1);
  ScopedGilRelease long_work(4.0 * static_cast<double>(work * batch_count(a, 2)) > long_operations);
  visit<float, double, complex64, complex128>(op, a.dtype, [&](auto tag) {
    parallel_for(0, batch_count(a, 2), std::max<int64_t>(default_grain / work, 1),
                 [&](int64_t begin, int64_t end) {
                   LibraryCall call;
                   f(tag, begin, end);
                 });
  });
}
// f(TypeTag, index) for each matrix.
template <class F> void for_each_matrix(const char* op, const View& a, F&& f) {
  for_matrices(op, a, [&](auto tag, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(tag, i);
  });
}
inline void set_info(const View& info, int64_t index, int code) {
  *item_of<int32_t>(info, index, 0) = code;
}

}  // namespace rl::kernels
