// LAPACK from OpenBLAS, by element type, column-major: see lapack.h.
#pragma once
#include <complex>
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#define LAPACK_COMPLEX_CUSTOM
#include <cblas.h>
#include <lapacke.h>

#include "core/number.h"

namespace rl::kernels {

// NaNs give NaNs, not errors.
inline void prepare_lapack() {
  static const bool nans_pass = (scipy_LAPACKE_set_nancheck(0), true);
  static_cast<void>(nans_pass);
}

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

// Eigenvalues and right vectors of a general matrix. Those of a real one come as real and imaginary
// parts, and as two columns for each conjugate pair.
#define RL_GEEV(T, p)                                                                            \
  inline int geev(char job, int n, T* a, int lda, T* wr, T* wi, T* v) {                          \
    return scipy_LAPACKE_##p##geev(LAPACK_COL_MAJOR, 'N', job, n, a, lda, wr, wi, nullptr, 1, v, \
                                   lda);                                                         \
  }
RL_GEEV(float, s)
RL_GEEV(double, d)
#undef RL_GEEV
#define RL_GEEV(T, p)                                                                             \
  inline int geev(char job, int n, T* a, int lda, T* w, T* v) {                                   \
    return scipy_LAPACKE_##p##geev(LAPACK_COL_MAJOR, 'N', job, n, a, lda, w, nullptr, 1, v, lda); \
  }
RL_GEEV(complex64, c)
RL_GEEV(complex128, z)
#undef RL_GEEV

}  // namespace rl::kernels
