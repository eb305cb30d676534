// LAPACK's routines for builds without OpenBLAS, of which no fast one is known for the processor:
// the plain algorithms, for matrices of some hundred rows. Arguments and codes are LAPACK's,
// column-major. What is not here raises an error that names the routine.
#pragma once
#include <complex>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/number.h"
#include "kernels/cpu/jacobi.h"
#include "kernels/cpu/reflectors.h"

namespace rl::kernels {

inline void prepare_lapack() {}

[[noreturn]] inline void fail_without_lapack(const char* op, const char* routine) {
  fail(ErrorKind::NotImplemented, op, ": needs ", routine,
       " of LAPACK, which this build of rushlight is without");
}

// L of a = L L^H in the lower triangle of `a`; an upper one is the transpose of the conjugates,
// and is worked on as it lies.
template <class T> int small_cholesky(const ColumnMajor<T>& a, bool upper) {
  auto at = [&](int i, int j) -> T& { return upper ? a(j, i) : a(i, j); };
  for (int j = 0; j < a.rows(); ++j) {
    auto pivot = real_part(at(j, j));
    for (int k = 0; k < j; ++k) pivot -= std::norm(at(j, k));
    if (!(pivot > 0)) return j + 1;
    pivot = std::sqrt(pivot);
    at(j, j) = T(pivot);
    for (int i = j + 1; i < a.rows(); ++i) {
      for (int k = 0; k < j; ++k) at(i, j) -= at(i, k) * conjugated(at(j, k));
      at(i, j) /= pivot;
    }
  }
  return 0;
}

// c = op(Q) c, or c op(Q), of the product Q of k reflectors.
template <class T> void small_ormqr(char side, char op, int k, const ColumnMajor<T>& vectors,
                                    const T* tau, const ColumnMajor<T>& c) {
  const bool left = side == 'L', plain = op == 'N';
  for (int step = 0; step < k; ++step) {
    const int r = left == plain ? k - 1 - step : step;
    const T scale = plain ? tau[r] : conjugated(tau[r]);
    if (left)
      for (int j = 0; j < c.columns(); ++j) reflect(vectors, r, scale, c, j);
    else
      for (int i = 0; i < c.rows(); ++i) {
        T dot = c(i, r);
        for (int j = r + 1; j < c.columns(); ++j) dot += c(i, j) * vectors(j, r);
        dot *= scale;
        c(i, r) -= dot;
        for (int j = r + 1; j < c.columns(); ++j) c(i, j) -= dot * conjugated(vectors(j, r));
      }
  }
}

// Least squares of full rank by Q R of a, or of its adjoint where it has fewer rows than columns.
template <class T> int small_gels(const ColumnMajor<T>& a, const ColumnMajor<T>& b) {
  const bool tall = a.rows() >= a.columns();
  const int n = std::min(a.rows(), a.columns());
  std::vector<T> copy(static_cast<size_t>(a.rows()) * static_cast<size_t>(a.columns()));
  std::vector<T> tau(static_cast<size_t>(n));
  ColumnMajor<T> m{copy.data(), std::max(a.rows(), a.columns()), n};
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m.rows(); ++i) m(i, j) = tall ? a(i, j) : conjugated(a(j, i));
  factor_by_reflectors(m, n, tau.data());
  for (int j = 0; j < n; ++j)
    if (m(j, j) == T(0)) return j + 1;
  ColumnMajor<T> x{b.data, m.rows(), b.columns(), b.step};
  if (tall) small_ormqr('L', 'C', n, m, tau.data(), x);
  for (int c = 0; c < b.columns(); ++c) {
    for (int s = 0; s < n; ++s) {
      const int i = tall ? n - 1 - s : s;
      for (int j = tall ? i + 1 : 0; j < (tall ? n : i); ++j)
        x(i, c) -= (tall ? m(i, j) : conjugated(m(j, i))) * x(j, c);
      x(i, c) /= tall ? m(i, i) : conjugated(m(i, i));
    }
    if (!tall)
      for (int i = n; i < m.rows(); ++i) x(i, c) = T(0);
  }
  if (!tall) small_ormqr('L', 'N', n, m, tau.data(), x);
  return 0;
}

// Least squares of any rank by singular values. As LAPACK does, the sum of the squares of what is
// left over stands below the solution.
template <class T> int small_gelsd(const ColumnMajor<T>& a, const ColumnMajor<T>& b, real_t<T>* s,
                                   real_t<T> rcond, int* rank) {
  using R = real_t<T>;
  const int m = a.rows(), n = a.columns(), few = std::min(m, n);
  std::vector<T> left(static_cast<size_t>(m) * static_cast<size_t>(few));
  std::vector<T> right(static_cast<size_t>(few) * static_cast<size_t>(n));
  ColumnMajor<T> u{left.data(), m, few}, vh{right.data(), few, n};
  if (int code = jacobi_svd(a, s, u, vh)) return code;
  const R least = (rcond < R(0) ? std::numeric_limits<R>::epsilon() : rcond) * s[0];
  *rank = 0;
  while (*rank < few && s[*rank] > least) ++*rank;
  std::vector<T> parts(static_cast<size_t>(few));
  for (int c = 0; c < b.columns(); ++c) {
    R left_over(0);
    for (int i = 0; i < m; ++i) left_over += std::norm(b(i, c));
    for (int k = 0; k < *rank; ++k) {
      T dot(0);
      for (int i = 0; i < m; ++i) dot += conjugated(u(i, k)) * b(i, c);
      left_over -= std::norm(dot);
      parts[static_cast<size_t>(k)] = dot / s[k];
    }
    for (int i = 0; i < std::max(m, n); ++i) b(i, c) = T(0);
    for (int k = 0; k < *rank; ++k)
      for (int j = 0; j < n; ++j) b(j, c) += conjugated(vh(k, j)) * parts[static_cast<size_t>(k)];
    if (m > n) b(n, c) = T(std::sqrt(std::max(left_over, R(0))));
  }
  return 0;
}

// The routines of one element type, under the names that they have in common.
template <class T> struct Lapack {
  using R = real_t<T>;
  static int potrf(char uplo, int n, T* a, int lda) {
    return small_cholesky(ColumnMajor<T>{a, n, n, lda}, uplo == 'U');
  }
  static int ldl_factor(bool, int, T*, int, int*) { fail_without_lapack("ldl_factor", "sytrf"); }
  static int ldl_solve(bool, int, int, const T*, int, const int*, T*, int) {
    fail_without_lapack("ldl_solve", "sytrs");
  }
  static int geqrf(int m, int n, T* a, int lda, T* tau) {
    factor_by_reflectors(ColumnMajor<T>{a, m, n, lda}, n, tau);
    return 0;
  }
  static int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {
    multiply_reflectors(ColumnMajor<T>{a, m, n, lda}, k, tau);
    return 0;
  }
  static int ormqr(char side, char op, int m, int n, int k, const T* a, int lda, const T* tau, T* c,
                   int ldc) {
    ColumnMajor<T> vectors{const_cast<T*>(a), side == 'L' ? m : n, k, lda};
    small_ormqr(side, op, k, vectors, tau, ColumnMajor<T>{c, m, n, ldc});
    return 0;
  }
  static int eigh(char job, char uplo, int n, T* a, int lda, R* w) {
    return jacobi_eigh(ColumnMajor<T>{a, n, n, lda}, uplo == 'U', job == 'V', w);
  }
  static int gesdd(char job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vt, int ldvt) {
    const int few = std::min(m, n);
    return jacobi_svd(ColumnMajor<T>{a, m, n, lda}, s,
                      ColumnMajor<T>{u, m,
                                     job == 'N'   ? 0
                                     : job == 'A' ? m
                                                  : few,
                                     ldu},
                      ColumnMajor<T>{vt,
                                     job == 'N'   ? 0
                                     : job == 'A' ? n
                                                  : few,
                                     n, ldvt});
  }
  static int gesvd(char job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vt, int ldvt,
                   R*) {
    return gesdd(job, m, n, a, lda, s, u, ldu, vt, ldvt);
  }
  static int gels(int m, int n, int k, T* a, int lda, T* b, int ldb) {
    return small_gels(ColumnMajor<T>{a, m, n, lda}, ColumnMajor<T>{b, std::max(m, n), k, ldb});
  }
  static int gelsy(int m, int n, int k, T* a, int lda, T* b, int ldb, int*, R rcond, int* rank) {
    std::vector<R> s(static_cast<size_t>(std::min(m, n)));
    return gelsd(m, n, k, a, lda, b, ldb, s.data(), rcond, rank);
  }
  static int gelsd(int m, int n, int k, T* a, int lda, T* b, int ldb, R* s, R rcond, int* rank) {
    return small_gelsd(ColumnMajor<T>{a, m, n, lda}, ColumnMajor<T>{b, std::max(m, n), k, ldb}, s,
                       rcond, rank);
  }
  static int gelss(int m, int n, int k, T* a, int lda, T* b, int ldb, R* s, R rcond, int* rank) {
    return gelsd(m, n, k, a, lda, b, ldb, s, rcond, rank);
  }
};

template <class R> int geev(char, int, R*, int, R*, R*, R*) { fail_without_lapack("eig", "geev"); }
template <class C> int geev(char, int, C*, int, C*, C*) { fail_without_lapack("eig", "geev"); }

}  // namespace rl::kernels
