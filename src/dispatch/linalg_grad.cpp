// Gradients of linear algebra, composed of differentiable ops. Notation: G the gradient that comes,
// X^H the conjugate transpose. The formulas follow Giles, "An extended collection of matrix
// derivative results for forward and reverse mode algorithmic differentiation" (2008), Roberts and
// Roberts, "QR and LQ decomposition matrix backpropagation algorithms" (2020), and Golub and
// Pereyra (1973) for the pseudoinverse; the complex forms replace transposes by adjoints.
#include <limits>

#include "dispatch/linalg.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_linalg.h"
#include "ops_matrix.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl::grad {

using namespace ops;

namespace {

Tensor identity_like(const Tensor& a, int64_t n) {
  return eye(n, std::nullopt, a.dtype(), {}, a.device());
}
Tensor diag_of(const Tensor& a) { return diagonal(a, 0, -2, -1); }
Tensor skew(const Tensor& a) { return a - adjoint_now(a); }
Tensor solve(const Tensor& a, const Tensor& b, bool left = true) {
  return linalg_solve_kernel(a, b, left)[0];
}
Tensor solve_lower(const Tensor& a, const Tensor& b, bool left = true, bool unit = false) {
  return linalg_triangular_kernel(a, b, false, left, unit);
}
Tensor solve_upper(const Tensor& a, const Tensor& b, bool left = true, bool unit = false) {
  return linalg_triangular_kernel(a, b, true, left, unit);
}
// 1 / x_ij off the diagonal, 0 on it, of an antisymmetric or antihermitian x.
Tensor reciprocal_off_diagonal(const Tensor& x) {
  Tensor one = identity_like(x, x.size(-1));
  return reciprocal(x + one) - one;
}
// a times the reciprocals of differences: 0 where a is and the values are equal, which have no
// vectors of their own: functions of the values alone are differentiable there.
Tensor over_differences(const Tensor& a, const Tensor& reciprocals) {
  Tensor zero = wrap_number(Scalar(0));
  Tensor drop = logical_and(eq(a, zero), logical_not(isfinite(reciprocals)));
  return a * where(drop, zero, reciprocals);
}
// differences[i][j] = v_j - v_i
Tensor differences(const Tensor& v) { return unsqueeze(v, -2) - unsqueeze(v, -1); }
Tensor columns(const Tensor& a, int64_t from, int64_t to) { return slice(a, -1, from, to, 1); }
Tensor rows(const Tensor& a, int64_t from, int64_t to) { return slice(a, -2, from, to, 1); }

}  // namespace

Tensor inverse_backward(const Tensor& grad, const Tensor& inverse) {
  Tensor h = adjoint_now(inverse);
  return -matmul(h, matmul(grad, h));
}

// With P = Phi(L^H G), its lower triangle with half the diagonal: L^-H (P + P^H) L^-1 / 2.
Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper) {
  Tensor l = upper ? adjoint_now(factor) : factor, g = upper ? adjoint_now(grad) : grad;
  Tensor p = tril(matmul(adjoint_now(l), g));
  p = p - diag_embed(diag_of(p) * Scalar(0.5));
  Tensor inner = (p + adjoint_now(p)) * Scalar(0.5);
  return solve_lower(l, solve_upper(adjoint_now(l), inner), false);
}

Tensor triangular_backward_matrix(const Tensor& grad, const Tensor& a, const Tensor& x, bool upper,
                                  bool left, bool unitriangular) {
  Tensor g = linalg_triangular_kernel(adjoint_now(a), grad, !upper, left, unitriangular);
  Tensor full = left ? -matmul(g, adjoint_now(x)) : -matmul(adjoint_now(x), g);
  return upper ? triu(full, unitriangular ? 1 : 0) : tril(full, unitriangular ? -1 : 0);
}

std::array<Tensor, 2> solve_gradients(const Tensor& grad, const Tensor& a, const Tensor& x,
                                      const Tensor& lu, const Tensor& pivots, bool left) {
  // The factors are no function of `a` to the graph: to differentiate again, `a` is factored again.
  Tensor g = grad_enabled() ? solve(adjoint_now(a), grad, left)
                            : linalg_lu_solve_kernel(lu, pivots, grad, left, true);
  return {left ? -matmul(g, adjoint_now(x)) : -matmul(adjoint_now(x), g), g};
}

// A = P L U. Square: P L^-H (tril(L^H G_L, -1) + triu(G_U U^H)) U^-H; of a wide or tall matrix the
// part outside the leading square adds to the triangle that it was computed from.
Tensor lu_backward(const Tensor& grad, const Tensor& lu, const Tensor& pivots) {
  int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  Tensor p = lu_permutation_matrix(pivots, detach(lu));
  Tensor square = columns(rows(lu, 0, k), 0, k), square_grad = columns(rows(grad, 0, k), 0, k);
  Tensor l = tril(square, -1) + identity_like(lu, k), u = triu(square);
  Tensor g_l = tril(square_grad, -1), g_u = triu(square_grad);
  Tensor lower = matmul(adjoint_now(l), g_l), upper = matmul(g_u, adjoint_now(u));
  if (n > k) lower = lower - matmul(columns(grad, k, n), adjoint_now(columns(lu, k, n)));
  if (m > k) upper = upper - matmul(adjoint_now(rows(lu, k, m)), rows(grad, k, m));
  Tensor phi = tril(lower, -1) + triu(upper);
  Tensor g = solve_lower(adjoint_now(u), solve_upper(adjoint_now(l), phi, true, true), false);
  if (n > k) g = cat({g, solve_upper(adjoint_now(l), columns(grad, k, n), true, true)}, -1);
  if (m > k) g = cat({g, solve_lower(adjoint_now(u), rows(grad, k, m), false)}, -2);
  return matmul(p, g);
}

// G conj(det) A^-H; for singular matrices the cofactors, through the singular values.
Tensor det_backward(const Tensor& grad, const Tensor& a, const Tensor& det, const Tensor& lu) {
  if (a.numel() == 0) return zeros_like(a);
  auto spread = [](const Tensor& t) { return unsqueeze(unsqueeze(t, -1), -1); };
  bool singular = false;
  if (!a.is_meta()) {
    NoGradGuard guard;
    Tensor zeros_found = any(eq(diag_of(detach(lu)), wrap_number(Scalar(0))));
    singular = item<bool>(zeros_found);
  }
  if (!singular) {
    Tensor scaled = spread(grad * conj_now(det)) * identity_like(a, a.size(-1));
    return solve(adjoint_now(a), expand(scaled, a.sizes()));
  }
  // Matrices that are not finite have no singular values, and a gradient of NaN.
  Tensor finite = all(isfinite(detach(a)), Dims{-2, -1}, true);
  Tensor usable = where(finite, a, wrap_number(Scalar(0.0)));
  auto [u, s, vh] = linalg_svd_kernel(usable, false, true, std::nullopt);
  Tensor n = eye(s.size(-1), std::nullopt, DType::Bool, {}, a.device());
  Tensor others =
      prod(where(n, wrap_number(Scalar(1.0)), unsqueeze(s, -2)), -1, false);  // of all but one
  Tensor turn = conj_now(linalg_det_kernel(u)[0] * linalg_det_kernel(vh)[0]);
  Tensor found = spread(grad * turn) * matmul(u * to(unsqueeze(others, -2), a), vh);
  return where(finite, found, wrap_number(Scalar(std::numeric_limits<double>::quiet_NaN())));
}

// d sign = i sign Im(tr(A^-1 dA)), d logabsdet = Re(tr(A^-1 dA)).
Tensor slogdet_backward(const Tensor& grad_sign, const Tensor& grad_logabsdet, const Tensor& a,
                        const Tensor& sign) {
  if (a.numel() == 0) return zeros_like(a);
  Tensor factor = to(grad_logabsdet, a);
  if (a.is_complex())
    factor = factor - ops::imag(conj_now(grad_sign) * sign) * Scalar(complex128(0, 1));
  Tensor scaled = unsqueeze(unsqueeze(factor, -1), -1) * identity_like(a, a.size(-1));
  return solve(adjoint_now(a), expand(scaled, a.sizes()));
}

namespace {

// The square and tall case: (G_Q + Q sym(M)) R^-H, M = G_R R^H - Q^H G_Q, where sym copies the
// upper triangle of M to the lower and keeps the real part of the diagonal.
Tensor qr_backward_tall(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r) {
  Tensor m = triu(matmul(g_r, adjoint_now(r)) - matmul(adjoint_now(q), g_q));
  Tensor both = m + adjoint_now(m);
  Tensor symmetric = both - diag_embed(diag_of(both) * Scalar(0.5));
  return solve_lower(adjoint_now(r), g_q + matmul(q, symmetric), false);
}

}  // namespace

Tensor qr_backward(const Tensor& grad_q, const Tensor& grad_r, const Tensor& a, const Tensor& q,
                   const Tensor& r, const std::string& mode) {
  int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  check(mode != "r",
        "linalg.qr: The derivative depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced')");
  check(mode != "complete" || m <= n,
        "linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows > "
        "ncols");
  if (m >= n) return qr_backward_tall(grad_q, grad_r, q, r);
  // A = [X Y], R = [U V]: Y = Q V, and X = Q U is square.
  Tensor y = columns(a, k, n), g_v = columns(grad_r, k, n);
  Tensor g_x = qr_backward_tall(grad_q + matmul(y, adjoint_now(g_v)), columns(grad_r, 0, k), q,
                                columns(r, 0, k));
  return cat({g_x, matmul(q, g_v)}, -1);
}

Tensor eigh_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
                     const Tensor& v) {
  check(v.dim() == values.dim() + 1,
        "linalg.eigh: the eigenvectors were not computed, so there is no gradient");
  Tensor inner = skew(matmul(adjoint_now(v), grad_vectors)) *
                 Scalar(0.5);  // what a symmetric change of the matrix sees
  Tensor turned = over_differences(inner, to(reciprocal_off_diagonal(differences(values)), v));
  return matmul(v, matmul(turned + diag_embed(to(grad_values, v)), adjoint_now(v)));
}

// V^-H (diag(G_L) + (V^H G_V - V^H V diag(Re(V^H G_V))) / conj(l_j - l_i)) V^H, the vectors being
// of length 1.
Tensor eig_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& a,
                    const Tensor& values, const Tensor& v) {
  check(v.dim() == values.dim() + 1,
        "linalg.eig: the eigenvectors were not computed, so there is no gradient");
  Tensor h = adjoint_now(v), turned = matmul(h, grad_vectors);
  Tensor kept = to(ops::real(diag_of(turned)), v);
  Tensor inner = (turned - matmul(h, v) * unsqueeze(kept, -2)) *
                 conj_now(reciprocal_off_diagonal(differences(values)));
  Tensor g = solve(h, matmul(inner + diag_embed(grad_values), h));
  return a.is_complex() ? g : ops::real(g);
}

// U [ (skew(U^H G_U) / E) S + S (skew(V^H G_V) / E) + diag(G_S) ] V^H, E_ij = s_j^2 - s_i^2, and
// the parts of G_U and G_V outside the spaces that U and V span.
Tensor svd_backward(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh,
                    const Tensor& u_full, const Tensor& s, const Tensor& vh_full) {
  check(u_full.dim() == s.dim() + 1,
        "linalg.svd: the singular vectors were not computed, so there is no gradient");
  int64_t k = s.size(-1);
  Tensor u = columns(u_full, 0, k), vh = rows(vh_full, 0, k), g_u = columns(grad_u, 0, k),
         g_v = adjoint_now(rows(grad_vh, 0, k));
  Tensor v = adjoint_now(vh), row = to(unsqueeze(s, -2), u), column = to(unsqueeze(s, -1), u);
  Tensor e = to(reciprocal_off_diagonal(differences(s * s)), u);
  Tensor from_u = skew(matmul(adjoint_now(u), g_u)), from_v = skew(matmul(vh, g_v));
  Tensor inner = over_differences(from_u, e) * row + column * over_differences(from_v, e) +
                 diag_embed(to(grad_s, u));
  if (u.is_complex()) inner = inner + diag_embed(diag_of(from_u) / (to(s, u) * Scalar(2)));
  Tensor g = matmul(u, matmul(inner, vh));
  if (u.size(-2) > k) {
    Tensor scaled = g_u / row;
    g = g + matmul(scaled - matmul(u, matmul(adjoint_now(u), scaled)), vh);
  }
  if (v.size(-2) > k) {
    Tensor scaled = adjoint_now(g_v) / column;
    g = g + matmul(u, scaled - matmul(matmul(scaled, v), vh));
  }
  return g;
}

Tensor pinv_backward(const Tensor& grad, const Tensor& a, const Tensor& inverse) {
  Tensor h = adjoint_now(inverse), g_h = adjoint_now(grad);
  Tensor through = matmul(h, matmul(grad, h));
  Tensor left = matmul(matmul(g_h, inverse), h), right = matmul(h, matmul(inverse, g_h));
  return left - matmul(a, matmul(inverse, left)) + right - matmul(matmul(right, inverse), a) -
         through;
}

Tensor lstsq_backward_right(const Tensor& grad, const Tensor& a) {
  return matmul(adjoint_now(linalg_pinv(a, Tensor(), Tensor(), false)), grad);
}

// X = A^+ B, so dX = dA^+ B.
Tensor lstsq_backward_matrix(const Tensor& grad, const Tensor& a, const Tensor& b,
                             const Tensor& x) {
  Tensor inverse = linalg_pinv(a, Tensor(), Tensor(), false), h = adjoint_now(inverse),
         g_h = adjoint_now(grad);
  Tensor residual = matmul(matmul(matmul(b - matmul(a, x), g_h), inverse), h);
  Tensor null = matmul(h, matmul(x, g_h));
  return residual + null - matmul(matmul(null, inverse), a) -
         matmul(matmul(h, grad), adjoint_now(x));
}

}  // namespace rl::grad
