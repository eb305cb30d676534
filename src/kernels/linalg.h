// Decompositions and solvers, over LAPACK: float32, float64, complex64, complex128.
//
// Matrices are the last two dims; leading batch dims are equal among all views of a call (the
// caller broadcasts, stride 0 is fine). Any strides, outputs may not overlap inputs. `info` is
// int32 with the batch shape and holds LAPACK's code per matrix: 0 is success, the caller raises
// otherwise.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// a = L L^H or U^H U from the lower or upper triangle; the other triangle of out is zero.
// info = i: the leading minor of order i is not positive definite.
void cholesky(const View& a, const View& out, bool upper, const View& info);

// a (m, n) -> packed L (unit diagonal) and U, and int32 pivots (min(m, n)), 1-based as LAPACK's.
// Without pivoting the pivots are 1, 2, .... info = i: U[i-1, i-1] is zero.
void lu_factor(const View& a, const View& lu, const View& pivots, bool pivot, const View& info);
enum class Transpose { None, Transpose, Adjoint };
// Solves op(A) x = b, or x op(A) = b if not left.
void lu_solve(const View& lu, const View& pivots, const View& b, const View& out, bool left,
              Transpose op);
// The row order (int64, length m) that the pivots of an (m, n) matrix stand for: A[perm] = L U.
void lu_permutation(const View& pivots, const View& permutation);

// a = L D L^T, or L D L^H, from its lower triangle: L, of unit diagonal, and D, of blocks of 1 or
// 2, packed as LAPACK has them, zeros above; int32 pivots (n). info = i: D has a zero at i - 1.
void ldl_factor(const View& a, const View& ld, const View& pivots, bool hermitian,
                const View& info);
void ldl_solve(const View& ld, const View& pivots, const View& b, const View& out, bool hermitian);

// Solves op(A) x = b, or x op(A) = b if not left, with A triangular. b and out (n, k).
void solve_triangular(const View& a, const View& b, const View& out, bool upper, bool left,
                      bool unitriangular);
// Through LU. info as lu_factor's.
void inverse(const View& a, const View& out, const View& info);

// Sign (unit complex number) and log |det| from an LU factorisation; det = sign * exp(logabsdet).
void lu_slogdet(const View& lu, const View& pivots, const View& sign, const View& logabsdet);
// Determinant from an LU factorisation.
void lu_det(const View& lu, const View& pivots, const View& det);

// a (m, n) -> q (m, k), r (k, n); k = min(m, n) (reduced) or m (complete), as the views say.
// q nullptr: r alone.
void qr(const View& a, const View* q, const View& r);
// Householder vectors below the diagonal and R on and above it; tau (min(m, n)).
void geqrf(const View& a, const View& out, const View& tau);
// The first columns of the product of reflectors: vectors (m, n), tau (k <= n) -> out (m, n).
void householder_product(const View& vectors, const View& tau, const View& out);
// out = op(Q) c, or c op(Q) if not left.
void ormqr(const View& vectors, const View& tau, const View& c, const View& out, bool left,
           bool adjoint);

// Hermitian eigenproblem from one triangle; values ascending (real dtype). vectors may be nullptr.
// An info code: the matrix holds an infinity or NaN, and the work was not begun.
inline constexpr int not_finite = -1000;

void eigh(const View& a, const View& values, const View* vectors, bool upper, const View& info);
// General eigenproblem; values and vectors complex. vectors may be nullptr.
void eig(const View& a, const View& values, const View* vectors, const View& info);

enum class SvdDriver { DivideAndConquer, Classic };
// a (m, n) = u diag(s) vh; u (m, m) and vh (n, n), or (m, k) and (k, n), as the views say; both may
// be nullptr, and then the singular values alone are computed. s descending, real dtype.
void svd(const View& a, const View* u, const View& s, const View* vh, const View& info,
         SvdDriver driver = SvdDriver::DivideAndConquer);

enum class LstsqDriver { Gels, Gelsy, Gelsd, Gelss };
// Minimises |a x - b| for a (m, n), b (m, k), solution (max(m, n), k) whose first n rows are x; the
// rest hold, for Gels and Gelsd/Gelss with m > n and full rank, what the residual sums come from.
// rank is int64 with the batch shape (nullptr for Gels), singular_values (min(m, n)) for Gelsd and
// Gelss.
void lstsq(const View& a, const View& b, const View& solution, const View* rank,
           const View* singular_values, double rcond, LstsqDriver driver, const View& info);

}  // namespace rl::kernels
