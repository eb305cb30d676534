"""Linear algebra: inverses, factorisations, eigenvalues, determinants and solvers."""
from ops.schema import FIXED_DIMS, composite, function, kernel

_EX = "*, check_errors: bool = False"

# ---- what the rows below share

function("square_of(a: Tensor, n: int)", "eye(n, None, dtype(a), strided, device(a))")
function("spread_number(t: Tensor)", "unsqueeze(unsqueeze(t, -1), -1)")
function("transpose_of(a: Tensor)", "transpose(a, -2, -1)")
function("skew(a: Tensor)", "a - adjoint_now(a)")
function("diagonal_of(a: Tensor)", "diagonal(a, 0, -2, -1)")
function("columns_of(a: Tensor, begin: int, end: int)", "slice(a, -1, begin, end)")
function("rows_of_matrix(a: Tensor, begin: int, end: int)", "slice(a, -2, begin, end)")
function("solved(a: Tensor, b: Tensor, left: bool)", "linalg_solve_kernel(a, b, left)[0]")
function("solve_lower(a: Tensor, b: Tensor, left: bool, unit: bool)",
         "linalg_triangular_kernel(a, b, False, left, unit)")
function("solve_upper(a: Tensor, b: Tensor, left: bool, unit: bool)",
         "linalg_triangular_kernel(a, b, True, left, unit)")
# As LAPACK would have written it.
function("column_major(t: Tensor)",
         "transpose(in_order(transpose(t, -2, -1)), -2, -1)")
function("check_same_matrix_type(op: name, a: Tensor, b: Tensor) -> None", """
    check(dtype(a) == dtype(b), op,
          ": Expected A and B to have the same dtype, but found A of type ", dtype(a),
          " and B of type ", dtype(b), " instead")
         """)
function("check_equation(op: name, a: Tensor, b: Tensor, left: bool) -> None", """
    check(size(a, -1) == size(b, -2 if left else -1), op,
          ": Incompatible shapes of A and B for the equation ", "AX = B" if left else "XA = B",
          " (", size(a, -2), "x", size(a, -1), " and ", size(b, -2), "x", size(b, -1), ")")
         """)
# Both with the batch dims they broadcast to.
function("with_common_batch(op: name, a: Tensor, b: Tensor) -> tuple[first, second]", """
    batch = broadcast_sizes(batch_of(a), batch_of(b), op)
    return (expanded(a, with_matrix(batch, size(a, -2), size(a, -1))),
            expanded(b, with_matrix(batch, size(b, -2), size(b, -1))))
         """)

# ---- gradients. Notation: G the gradient that comes, X^H the conjugate transpose. The formulas
# follow Giles, "An extended collection of matrix derivative results for forward and reverse mode
# algorithmic differentiation" (2008), Roberts and Roberts, "QR and LQ decomposition matrix
# backpropagation algorithms" (2020), and Golub and Pereyra (1973) for the pseudoinverse; the
# complex forms replace transposes by adjoints.

function("inverse_backward(grad: Tensor, inverse: Tensor)", """
    h = adjoint_now(inverse)
    return -matmul(h, matmul(grad, h))
         """)
# With P = Phi(L^H G), its lower triangle with half the diagonal: L^-H (P + P^H) L^-1 / 2.
function("cholesky_backward(grad: Tensor, factor: Tensor, upper: bool)", """
    lower = adjoint_now(factor) if upper else factor
    whole = tril(matmul(adjoint_now(lower), adjoint_now(grad) if upper else grad))
    p = whole - diag_embed(diagonal_of(whole) * 0.5)
    inner = (p + adjoint_now(p)) * 0.5
    return solve_lower(lower, solve_upper(adjoint_now(lower), inner, True, False), False, False)
         """)
function("triangular_backward_matrix(grad: Tensor, a: Tensor, x: Tensor, upper: bool, left: bool, "
         "unitriangular: bool)", """
    g = linalg_triangular_kernel(adjoint_now(a), grad, not upper, left, unitriangular)
    full = -matmul(g, adjoint_now(x)) if left else -matmul(adjoint_now(x), g)
    if upper:
        return triu(full, 1 if unitriangular else 0)
    return tril(full, -1 if unitriangular else 0)
         """)
# The factors are no function of `a` to the graph: to differentiate again, `a` is factored again.
function("solve_gradients(grad: Tensor, a: Tensor, x: Tensor, lu: Tensor, pivots: Tensor, "
         "left: bool) -> tuple[a, b]", """
    g = (solved(adjoint_now(a), grad, left) if grad_enabled()
         else linalg_lu_solve_kernel(lu, pivots, grad, left, True))
    return -matmul(g, adjoint_now(x)) if left else -matmul(adjoint_now(x), g), g
         """)
# A = P L U. Square: P L^-H (tril(L^H G_L, -1) + triu(G_U U^H)) U^-H; of a wide or tall matrix the
# part outside the leading square adds to the triangle that it was computed from.
function("lu_backward(grad: Tensor, lu: Tensor, pivots: Tensor)", """
    m = size(lu, -2)
    n = size(lu, -1)
    k = min(m, n)
    square = columns_of(rows_of_matrix(lu, 0, k), 0, k)
    square_grad = columns_of(rows_of_matrix(grad, 0, k), 0, k)
    unit = tril(square, -1) + square_of(lu, k)
    u = triu(square)
    lower = matmul(adjoint_now(unit), tril(square_grad, -1))
    upper = matmul(triu(square_grad), adjoint_now(u))
    if n > k:
        lower = lower - matmul(columns_of(grad, k, n), adjoint_now(columns_of(lu, k, n)))
    if m > k:
        upper = upper - matmul(adjoint_now(rows_of_matrix(lu, k, m)), rows_of_matrix(grad, k, m))
    phi = tril(lower, -1) + triu(upper)
    inner = solve_upper(adjoint_now(unit), phi, True, True)
    g = solve_lower(adjoint_now(u), inner, False, False)
    if n > k:
        g = cat([g, solve_upper(adjoint_now(unit), columns_of(grad, k, n), True, True)], -1)
    if m > k:
        g = cat([g, solve_lower(adjoint_now(u), rows_of_matrix(grad, k, m), False, False)], -2)
    return matmul(lu_permutation_matrix(pivots, detach(lu)), g)
         """)
# G conj(det) A^-H; for singular matrices the cofactors, through the singular values. Matrices that
# are not finite have no singular values, and a gradient of NaN.
function("det_backward(grad: Tensor, a: Tensor, det: Tensor, lu: Tensor)", """
    if numel(a) == 0:
        return zeros_like(a)
    if not item_or(any(eq(diagonal_of(detach(lu)), 0)), False):
        scaled = spread_number(grad * conj_now(det)) * square_of(a, size(a, -1))
        return solved(adjoint_now(a), expand(scaled, sizes(a)), True)
    finite = all(isfinite(detach(a)), [-2, -1], True)
    u, s, vh = linalg_svd_kernel(where(finite, a, 0.0), False, True, None)
    places = eye(size(s, -1), None, bool, strided, device(a))
    others = prod(where(places, 1.0, unsqueeze(s, -2)), -1, False)  # of all but one
    turn = conj_now(linalg_det_kernel(u)[0] * linalg_det_kernel(vh)[0])
    found = spread_number(grad * turn) * matmul(u * to(unsqueeze(others, -2), a), vh)
    return where(finite, found, nan)
         """)
# d sign = i sign Im(tr(A^-1 dA)), d logabsdet = Re(tr(A^-1 dA)).
function("slogdet_backward(grad_sign: Tensor, grad_logabsdet: Tensor, a: Tensor, sign: Tensor)", """
    if numel(a) == 0:
        return zeros_like(a)
    factor = to(grad_logabsdet, dtype_of(a))
    if is_complex(a):
        factor = factor - imag(conj_now(grad_sign) * sign) * 1j
    scaled = spread_number(factor) * square_of(a, size(a, -1))
    return solved(adjoint_now(a), expand(scaled, sizes(a)), True)
         """)
# The square and tall case: (G_Q + Q sym(M)) R^-H, M = G_R R^H - Q^H G_Q, where sym copies the upper
# triangle of M to the lower and keeps the real part of the diagonal.
function("qr_backward_tall(grad_q: Tensor, grad_r: Tensor, q: Tensor, r: Tensor)", """
    m = triu(matmul(grad_r, adjoint_now(r)) - matmul(adjoint_now(q), grad_q))
    both = m + adjoint_now(m)
    symmetric = both - diag_embed(diagonal_of(both) * 0.5)
    return solve_lower(adjoint_now(r), grad_q + matmul(q, symmetric), False, False)
         """)
# A = [X Y], R = [U V]: Y = Q V, and X = Q U is square.
function("qr_backward(grad_q: Tensor, grad_r: Tensor, a: Tensor, q: Tensor, r: Tensor, mode: str)",
         """
    m = size(a, -2)
    n = size(a, -1)
    k = min(m, n)
    check(mode != "r",
          "linalg.qr: The derivative depends on Q, which is not computed when mode='r'. Please use "
          "linalg.qr(A, mode='reduced')")
    check(mode != "complete" or m <= n,
          "linalg.qr: The QR decomposition is not differentiable when mode='complete' and nrows > "
          "ncols")
    if m >= n:
        return qr_backward_tall(grad_q, grad_r, q, r)
    g_v = columns_of(grad_r, k, n)
    g_x = qr_backward_tall(grad_q + matmul(columns_of(a, k, n), adjoint_now(g_v)),
                           columns_of(grad_r, 0, k), q, columns_of(r, 0, k))
    return cat([g_x, matmul(q, g_v)], -1)
         """)
# 1 / x_ij off the diagonal, 0 on it, of an antisymmetric or antihermitian x.
function("reciprocal_off_diagonal(x: Tensor)", """
    one = square_of(x, size(x, -1))
    return reciprocal(x + one) - one
         """)
# differences[i][j] = v_j - v_i
function("differences(v: Tensor)", "unsqueeze(v, -2) - unsqueeze(v, -1)")
# a times the reciprocals of differences: 0 where a is and the values are equal, which have no
# vectors of their own: functions of the values alone are differentiable there.
function("over_differences(a: Tensor, reciprocals: Tensor)", """
    drop = logical_and(eq(a, 0), logical_not(isfinite(reciprocals)))
    return a * where(drop, 0, reciprocals)
         """)
function("eigh_backward(grad_values: Tensor, grad_vectors: Tensor, values: Tensor, v: Tensor)", """
    check(dim_of(v) == dim_of(values) + 1,
          "linalg.eigh: the eigenvectors were not computed, so there is no gradient")
    # what a symmetric change of the matrix sees
    inner = skew(matmul(adjoint_now(v), grad_vectors)) * 0.5
    turned = over_differences(inner, to(reciprocal_off_diagonal(differences(values)), v))
    return matmul(v, matmul(turned + diag_embed(to(grad_values, dtype_of(v))), adjoint_now(v)))
         """)
# V^-H (diag(G_L) + (V^H G_V - V^H V diag(Re(V^H G_V))) / conj(l_j - l_i)) V^H, the vectors being of
# length 1.
function("eig_backward(grad_values: Tensor, grad_vectors: Tensor, a: Tensor, values: Tensor, "
         "v: Tensor)", """
    check(dim_of(v) == dim_of(values) + 1,
          "linalg.eig: the eigenvectors were not computed, so there is no gradient")
    h = adjoint_now(v)
    turned = matmul(h, grad_vectors)
    kept = to(real(diagonal_of(turned)), dtype_of(v))
    slopes = conj_now(reciprocal_off_diagonal(differences(values)))
    inner = (turned - matmul(h, v) * unsqueeze(kept, -2)) * slopes
    g = solved(h, matmul(inner + diag_embed(grad_values), h), True)
    return g if is_complex(a) else real(g)
         """)
# U [ (skew(U^H G_U) / E) S + S (skew(V^H G_V) / E) + diag(G_S) ] V^H, E_ij = s_j^2 - s_i^2, and the
# parts of G_U and G_V outside the spaces that U and V span.
function("svd_backward(grad_u: Tensor, grad_s: Tensor, grad_vh: Tensor, u_full: Tensor, s: Tensor, "
         "vh_full: Tensor)", """
    check(dim_of(u_full) == dim_of(s) + 1,
          "linalg.svd: the singular vectors were not computed, so there is no gradient")
    k = size(s, -1)
    u = columns_of(u_full, 0, k)
    vh = rows_of_matrix(vh_full, 0, k)
    g_u = columns_of(grad_u, 0, k)
    g_v = adjoint_now(rows_of_matrix(grad_vh, 0, k))
    row = to(unsqueeze(s, -2), u)
    column = to(unsqueeze(s, -1), u)
    e = to(reciprocal_off_diagonal(differences(s * s)), u)
    from_u = skew(matmul(adjoint_now(u), g_u))
    from_v = skew(matmul(vh, g_v))
    inner = (over_differences(from_u, e) * row + column * over_differences(from_v, e)
             + diag_embed(to(grad_s, dtype_of(u))))
    if is_complex(u):
        inner = inner + diag_embed(diagonal_of(from_u) / (to(s, u) * 2))
    g = matmul(u, matmul(inner, vh))
    if size(u, -2) > k:
        scaled = g_u / row
        g = g + matmul(scaled - matmul(u, matmul(adjoint_now(u), scaled)), vh)
    if size(vh, -1) > k:
        scaled = adjoint_now(g_v) / column
        g = g + matmul(u, scaled - matmul(matmul(scaled, adjoint_now(vh)), vh))
    return g
         """)
function("pinv_backward(grad: Tensor, a: Tensor, inverse: Tensor)", """
    h = adjoint_now(inverse)
    g_h = adjoint_now(grad)
    left = matmul(matmul(g_h, inverse), h)
    right = matmul(h, matmul(inverse, g_h))
    through = matmul(h, matmul(grad, h))
    return (left - matmul(a, matmul(inverse, left)) + right - matmul(matmul(right, inverse), a)
            - through)
         """)
function("lstsq_backward_right(grad: Tensor, a: Tensor)",
         "matmul(adjoint_now(linalg_pinv(a, None, None, False)), grad)")
# X = A^+ B, so dX = dA^+ B.
function("lstsq_backward_matrix(grad: Tensor, a: Tensor, b: Tensor, x: Tensor)", """
    inverse = linalg_pinv(a, None, None, False)
    h = adjoint_now(inverse)
    g_h = adjoint_now(grad)
    residual = matmul(matmul(matmul(b - matmul(a, x), g_h), inverse), h)
    null = matmul(h, matmul(x, g_h))
    return (residual + null - matmul(matmul(null, inverse), a)
            - matmul(matmul(h, grad), adjoint_now(x)))
         """)

# ---- the rows

# Where a text has {}, the number that LAPACK gives stands.
_SINGULAR = ("The diagonal element {} is zero, the inversion could not be completed because the "
             "input matrix is singular.")
_NOT_CONVERGED = ("The algorithm failed to converge because the input matrix is ill-conditioned or "
                  "has too many repeated eigenvalues (error code: {}).")
kernel(f"linalg_inv_ex(A: Tensor, {_EX}) -> tuple[inverse, info]", body=f"""
    check_square("linalg.inv", A)
    inverse = matrices_like(A)
    info = info_for(A)
    launch_inverse(A, inverse, info)
    if check_errors:
        check_info("linalg.inv", info, "{_SINGULAR}")
    return inverse, info
       """, names=("linalg.inv_ex",),
       out=True,
       doc="Inverses of square matrices; info is nonzero where there is none.",
       grad={"A": "inverse_backward(grad, inverse)"},
       batch="leading", autocast="float32")
composite("linalg_inv(A: Tensor)", "linalg_inv_ex(A, True)[0]", names=("linalg.inv",), out=True,
          ref="numpy.linalg.inv",
          doc="Inverses of square matrices.", autocast="float32")
composite("inverse(input: Tensor)", "linalg_inv_ex(input, True)[0]", out=True,
          doc="Inverses of square matrices.",
          autocast="float32")

_CHOLESKY = "L L^H (or U^H U) = A of Hermitian positive definite matrices"
kernel("linalg_cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> "
       "tuple[L, info]", body="""
    check_square("linalg.cholesky", input)
    factor = matrices_like(input)
    info = info_for(input)
    launch_cholesky(input, factor, upper, info)
    if check_errors:
        check_info("linalg.cholesky", info,
                   "The factorization could not be completed because the input is not "
                   "positive-definite (the leading minor of order {} is not "
                   "positive-definite).")
    return factor, info
       """,
       names=("linalg.cholesky_ex",), out=True,
       doc=f"{_CHOLESKY}; info is nonzero where there is none.",
       grad={"input": "cholesky_backward(grad, L, upper)"}, batch="leading", autocast="float32")
composite("linalg_cholesky(input: Tensor, *, upper: bool = False)",
          "linalg_cholesky_ex(input, upper, True)[0]",
          names=("linalg.cholesky",), out=True, doc=f"{_CHOLESKY}.", ref="numpy.linalg.cholesky",
          autocast="float32")
composite("cholesky(input: Tensor, upper: bool = False)",
          "linalg_cholesky_ex(input, upper, True)[0]", out="cast", doc=f"{_CHOLESKY}.",
          node="CholeskyBackward0", autocast="float32")
composite("cholesky_solve(input: Tensor, L: Tensor, upper: bool = False)", """
    check_square("cholesky_solve", L, "L")
    check_matrix("cholesky_solve", input, "B")
    check_same_matrix_type("cholesky_solve", L, input)
    inner = linalg_solve_triangular(adjoint_now(L) if upper else L, input, False, True, False)
    return linalg_solve_triangular(L if upper else adjoint_now(L), inner, True, True, False)
          """, out="cast",
          doc="Solves A x = input for A given by its Cholesky factor.",
          batch="batches", autocast="float32", node="CholeskySolveBackward0")
composite("cholesky_inverse(input: Tensor, upper: bool = False)", """
    check_square("cholesky_inverse", input, "input")
    n = size(input, -1)
    return cholesky_solve(eye(n, n, dtype(input), strided, device(input)), input, upper)
          """, out="cast",
          doc="Inverse of the matrix with the given Cholesky factor.",
          batch="leading", autocast="float32", node="CholeskyInverseBackward0")

kernel("linalg_triangular_kernel(A: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: "
       "bool)", node="LinalgSolveTriangularBackward0", names=(),
       shape="matrix_like(B)", launch="solve_triangular(A, B, out, upper, left, unitriangular)",
       doc="Triangular solve of batches of one shape.",
       grad={"A": "triangular_backward_matrix(grad, A, out, upper, left, unitriangular)",
             "B": "linalg_triangular_kernel(adjoint(A), grad, not upper, left, unitriangular)"},
       batch="spread_leading")
composite("linalg_solve_triangular(input: Tensor, B: Tensor, *, upper: bool, left: bool = True, "
          "unitriangular: bool = False)", """
    check_square("linalg.solve_triangular", input)
    right = B if is_complex(B) else to(B, dtype(input))
    check_matrix("linalg.solve_triangular", right, "B")
    check_same_matrix_type("linalg.solve_triangular", input, right)
    check_equation("linalg.solve_triangular", input, B, left)
    a, b = with_common_batch("linalg.solve_triangular", input, right)
    return linalg_triangular_kernel(a, b, upper, left, unitriangular)
          """,
          names=("linalg.solve_triangular",), out=True,
          doc="Solves A X = B (or X A = B), where input is A and triangular; in the dtype of A.",
          batch="batches")
composite("triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, "
          "unitriangular: bool = False)"
          " -> tuple[solution, cloned_coefficient]", """
    check(dim_of(A) >= 2 and dim_of(input) >= 2,
          "triangular_solve: expected tensors with at least 2 dimensions, got ", sizes(A), " and ",
          sizes(input))
    check_same_matrix_type("triangular_solve", A, input)
    solution = linalg_solve_triangular(transpose_of(A) if transpose else A, input,
                                       upper != transpose, True, unitriangular)
    matrices = expanded(A, with_matrix(batch_of(solution), size(A, -2), size(A, -1)))
    return solution, without_base(column_major(matrices))
          """, out=True,
          doc="Solves A X = input with A triangular; returns A too.",
          batch=FIXED_DIMS, autocast="float32", node="TriangularSolveBackward0")

kernel("linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> "
       "tuple[LU, pivots, info]", body="""
    check_matrix("linalg.lu_factor", A)
    lu = matrices_like(A)
    info = info_for(A)
    pivots = new(with_last(batch_of(A), min(size(A, -1), size(A, -2))), options_of(A, int32))
    launch_lu_factor(A, lu, pivots, pivot, info)
    if check_errors:
        check_info("linalg.lu_factor", info,
                   "U is singular: its diagonal element {} is zero.")
    return lu, pivots, info
       """,
       names=("linalg.lu_factor_ex",), out=True,
       doc="P L U = A, L and U packed into one matrix; info is nonzero where U is singular.",
       grad={"A": "lu_backward(grad, LU, pivots)"}, batch="leading")
composite("linalg_lu_factor(A: Tensor, *, pivot: bool = True) -> tuple[LU, pivots]", """
    lu, pivots, info = linalg_lu_factor_ex(A, pivot, True)
    return lu, pivots
          """,
          names=("linalg.lu_factor",), out=True,
          doc="P L U = A, L and U packed into one matrix.", batch="leading")
kernel("lu_permutation_matrix(pivots: Tensor, like: Tensor)", body="""
    rows = size(like, -2)
    order = new(with_last(batch_of(like), rows), options_of(like, int64))
    launch_lu_permutation(pivots, order)
    # Row order[i] of P holds its one in column i.
    p = zeros(with_matrix(batch_of(like), rows, rows), dtype(like), strided, device(like))
    return scatter(p, -2, unsqueeze(order, -2), 1)
       """, names=(), doc="P of A = P L U.",
       grad="a permutation has no gradient")
composite("lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: "
          "bool = True) -> tuple[P, L, U]", """
    check_unpacked(LU_data, LU_pivots, unpack_pivots)
    none = empty([0], dtype(LU_data), strided, device(LU_data))
    p = lu_permutation_matrix(LU_pivots, detach(LU_data)) if unpack_pivots else none
    if not unpack_data:
        return p, none, none
    k = min(size(LU_data, -1), size(LU_data, -2))
    ones = eye(size(LU_data, -2), k, dtype(LU_data), strided, device(LU_data))
    return p, tril(slice(LU_data, -1, 0, k), -1) + ones, triu(slice(LU_data, -2, 0, k))
          """,
          names=("torch.lu_unpack",), out=True, doc="P, L and U of a packed factorisation.",
          batch=FIXED_DIMS, node="LuUnpackBackward0", inputs=("LU_data",))
composite("linalg_lu(A: Tensor, *, pivot: bool = True) -> tuple[P, L, U]", """
    lu, pivots, info = linalg_lu_factor_ex(A, pivot, False)
    return lu_unpack(lu, pivots, True, pivot)
          """, names=("linalg.lu",),
          out=True, doc="P L U = A.",
          batch="leading", node="LinalgLuBackward0")
kernel("linalg_lu_solve_kernel(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool)",
       shape="left ? matrix_like(B) : dense(B)",
       launch="lu_solve(LU, pivots, B, out, left, "
              "adjoint ? kernels::Transpose::Adjoint : kernels::Transpose::None)",
       node="LinalgLuSolveBackward0", names=(),
       doc="Solves by a packed factorisation; batches of one shape.",
       grad={"B": "linalg_lu_solve_kernel(LU, pivots, grad, left, not adjoint)"},
       batch="spread_leading")
composite("linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: "
          "bool = False)", """
    check_square("linalg.lu_solve", LU, "LU")
    check_matrix("linalg.lu_solve", B, "B")
    check_same_matrix_type("linalg.lu_solve", LU, B)
    check(dtype(pivots) == int32,
          "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check(dim_of(pivots) == dim_of(LU) - 1 and size(pivots, -1) == size(LU, -1),
          "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
          "matrix")
    check(sizes(pivots) == with_last(batch_of(LU), size(LU, -1)),
          "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots "
          "with shape ", sizes(pivots))
    check_equation("linalg.lu_solve", LU, B, left)
    lu, b = with_common_batch("linalg.lu_solve", LU, B)
    order = expand(pivots, with_last(batch_of(lu), size(lu, -1)))
    if not is_recorded(lu):
        return linalg_lu_solve_kernel(lu, order, b, left, adjoint)
    # By its factors, which have gradients: X A = B is A^H X^H = B^H.
    if not left:
        turned = linalg_lu_solve(lu, order, adjoint_now(b), True, not adjoint)
        return without_base(adjoint_now(turned))
    p, lower, upper = lu_unpack(lu, order, True, True)
    if not adjoint:
        turned = matmul(transpose_of(p), b)
        return linalg_solve_triangular(
            upper, linalg_solve_triangular(lower, turned, False, True, True), True, True, False)
    inner = linalg_solve_triangular(adjoint_now(upper), b, False, True, False)
    return column_major(
        matmul(p, linalg_solve_triangular(adjoint_now(lower), inner, True, True, True)))
          """,
          names=("linalg.lu_solve",), out=True,
          doc="Solves A X = B (or X A = B) for A given by linalg.lu_factor.",
          batch=FIXED_DIMS, node="LinalgLuSolveBackward0", inputs=("LU", "B"))
composite("lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor)",
          "linalg_lu_solve(LU_data, LU_pivots, input, True, False)",
          names=("torch.lu_solve", "Tensor.lu_solve"), out=True,
          doc="Solves A X = input for A given by linalg.lu_factor.",
          autocast="float32", node="LinalgLuSolveBackward0", inputs=("LU_data", "input"))

_LDL = ("L D L^T = A of symmetric matrices, or L D L^H of Hermitian ones, read from their lower "
        "triangles")
kernel("linalg_ldl_factor_ex(input: Tensor, *, hermitian: bool = False, "
       "check_errors: bool = False) -> tuple[LD, pivots, info]", body="""
    check_square("linalg.ldl_factor", input)
    ld = matrices_like(input)
    info = info_for(input)
    pivots = new(with_last(batch_of(input), size(input, -1)), options_of(input, int32))
    launch_ldl_factor(input, ld, pivots, hermitian, info)
    if check_errors:
        check_info("linalg.ldl_factor", info,
                   "D is singular: its diagonal element {} is zero.")
    return ld, pivots, info
       """,
       names=("linalg.ldl_factor_ex",), out=True,
       doc=f"{_LDL}; info is nonzero where D is singular.",
       samples=("fixed([[2.0, 1], [1, 3]])", "fixed([[2.0, 1], [1, 3]]), hermitian=True"),
       grad="the factors of ldl_factor have no gradient formula here or in torch; use linalg.solve",
       batch="leading")
composite("linalg_ldl_factor(input: Tensor, *, hermitian: bool = False) -> tuple[LD, pivots]", """
    ld, pivots, info = linalg_ldl_factor_ex(input, hermitian, True)
    return ld, pivots
          """,
          names=("linalg.ldl_factor",), out=True,
          doc=f"{_LDL}.", samples=("fixed([[2.0, 1], [1, 3]])",
                                   "fixed([[2.0, 1], [1, 3]]), hermitian=True"),
          batch="leading")
kernel("linalg_ldl_solve_kernel(LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool)", names=(),
       shape="matrix_like(B)", launch="ldl_solve(LD, pivots, B, out, hermitian)",
       node="LinalgLdlSolveBackward0",
       doc="Solves by a packed factorisation; batches of one shape.",
       grad={"LD": "missing_gradient('linalg.ldl_solve: LD')",
             "B": "linalg_ldl_solve_kernel(LD, pivots, grad, True) if hermitian else "
                  "conj(linalg_ldl_solve_kernel(LD, pivots, conj(grad), False))"},
       batch="spread_leading")
composite("linalg_ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False)",
          """
    check_square("linalg.ldl_solve", LD, "LD")
    check_matrix("linalg.ldl_solve", B, "B")
    check_same_matrix_type("linalg.ldl_solve", LD, B)
    check_equation("linalg.ldl_solve", LD, B, True)
    check(is_integral(dtype(pivots)), "linalg.ldl_solve: Expected pivots to be integers. Got ",
          dtype(pivots))
    check(sizes(pivots) == with_last(batch_of(LD), size(LD, -1)),
          "linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got "
          "pivots with shape ", sizes(pivots))
    ld, b = with_common_batch("linalg.ldl_solve", LD, B)
    order = expand(to(pivots, int32), with_last(batch_of(ld), size(ld, -1)))
    return linalg_ldl_solve_kernel(ld, order, b, hermitian)
          """,
          names=("linalg.ldl_solve",), out=True,
          doc="Solves A X = B for A given by linalg.ldl_factor.",
          samples=("fixed([[2.0, 0, 0], [0.5, 3, 0], [-1, 0.2, 1.5]]), fixed([1, 3, 3], 'int32'), "
                   "x(3, 2)",
                   "fixed([[2.0, 0], [0.5, 3]]), fixed([1, 2], 'int32'), x(2, 1), hermitian=True"),
          batch=FIXED_DIMS)

kernel("linalg_solve_kernel(A: Tensor, B: Tensor, left: bool) -> tuple[result, LU, pivots, info]",
       body="""
    lu, pivots, info = linalg_lu_factor_ex(A, True, False)
    return linalg_lu_solve_kernel(lu, pivots, B, left, False), lu, pivots, info
       """, node="LinalgSolveExBackward0", names=(),
       doc="Solves A X = B (or X A = B); batches of one shape.",
       grad={"A, B": "solve_gradients(grad, A, result, LU, pivots, left)"}, batch="spread_leading")
composite("linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) "
          "-> tuple[result, info]", """
    check_square("linalg.solve", A)
    check_same_matrix_type("linalg.solve", A, B)
    vector = dim_of(B) == 1 or sizes(B) == with_last(batch_of(A), size(A, -1))
    check(not vector or left,
          "linalg.solve: Vector broadcasting of the left hand side is not supported for "
          "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)")
    matrices = unsqueeze(B, -1) if vector else B
    check_matrix("linalg.solve", matrices, "B")
    check_equation("linalg.solve", A, matrices, left)
    a, b = with_common_batch("linalg.solve", A, matrices)
    result, lu, pivots, info = linalg_solve_kernel(a, b, left)
    if check_errors:
        check_info("linalg.solve", info, "The solver failed because the input matrix is singular.")
    if not vector:
        return result, info
    columns = squeeze(result, [-1])
    # Batches of vectors lie as the columns of one matrix.
    return without_base(columns if dim_of(columns) < 2 else column_major(columns)), info
          """,
          names=("linalg.solve_ex",), out=True,
          doc="Solves A X = B (or X A = B); info is nonzero where A is singular.",
          batch="solve", node="LinalgSolveExBackward0")
composite("linalg_solve(A: Tensor, B: Tensor, *, left: bool = True)",
          "linalg_solve_ex(A, B, left, True)[0]",
          names=("linalg.solve",), out=True, doc="Solves A X = B (or X A = B).",
          ref="numpy.linalg.solve",
          autocast="float32", node="LinalgSolveExBackward0")

kernel("linalg_det_kernel(A: Tensor) -> tuple[result, LU]", body="""
    check_square("linalg.det", A)
    lu, pivots, info = linalg_lu_factor_ex(A, True, False)
    det = new(batch_of(A), options(A))
    launch_lu_det(lu, pivots, det)
    return det, lu
       """, node="LinalgDetBackward0", names=(),
       doc="Determinants, and the factorisation they come from.",
       grad={"A": "det_backward(grad, A, result, LU)"})
composite("linalg_det(A: Tensor)", "linalg_det_kernel(A)[0]", names=("linalg.det",), out=True,
          doc="Determinants.", ref="numpy.linalg.det",
          batch="leading")
composite("det(input: Tensor)", "linalg_det_kernel(input)[0]", doc="Determinants.", batch="leading")
kernel("linalg_slogdet(A: Tensor) -> tuple[sign, logabsdet]", body="""
    check_square("linalg.slogdet", A)
    lu, pivots, info = linalg_lu_factor_ex(A, True, False)
    sign = new(batch_of(A), options(A))
    logabsdet = new(batch_of(A), options_of(A, to_real(dtype(A))))
    launch_lu_slogdet(lu, pivots, sign, logabsdet)
    return sign, logabsdet
       """, names=("linalg.slogdet",), out=True,
       doc="Sign and logarithm of the absolute value of determinants.", ref="numpy.linalg.slogdet",
       grad={"A": "slogdet_backward(grad_sign, grad_logabsdet, A, sign)"}, batch="leading")
composite("slogdet(input: Tensor) -> tuple[sign, logabsdet]", "linalg_slogdet(input)", out=True,
          doc="Sign and logarithm of the absolute value of determinants.")
composite("logdet(input: Tensor)", """
    check_square("logdet", input)
    sign, logabsdet = linalg_slogdet(input)
    if is_complex(input):
        return log(sign) + logabsdet
    return where(eq(sign, -1.0), nan, logabsdet)
          """, doc="Logarithms of determinants; NaN where one is negative.",
          batch="leading")

kernel("linalg_qr(A: Tensor, mode: str = 'reduced') -> tuple[Q, R]", body="""
    check_matrix("linalg.qr", A)
    check(mode == "reduced" or mode == "complete" or mode == "r",
          "qr received unrecognized mode '", mode,
          "' but expected one of 'reduced' (default), 'r', or 'complete'")
    rows = size(A, -2)
    width = rows if mode == "complete" else min(rows, size(A, -1))
    r = new_column_major(with_matrix(batch_of(A), width, size(A, -1)), options(A))
    if mode == "r":
        launch_qr(A, no_view, r)
        return new([0], options(A)), r
    q = new_column_major(with_matrix(batch_of(A), rows, width), options(A))
    launch_qr(A, q, r)
    return q, r
       """, names=("linalg.qr",), out=True,
       ref="numpy.linalg.qr",
       doc="Q R = A with orthonormal columns and an upper triangle; mode 'reduced', 'complete' or "
           "'r' (R alone).",
       grad={"A": "qr_backward(grad_Q, grad_R, A, Q, R, mode)"},
       batch="leading", autocast="float32")
composite("qr(input: Tensor, some: bool = True) -> tuple[Q, R]",
          'linalg_qr(input, "reduced" if some else "complete")', out=True, doc="Q R = input.",
          batch="leading", autocast="float32")
kernel("geqrf(input: Tensor) -> tuple[a, tau]", out="cast",
       guard='check_matrix("geqrf", input, "input")',
       shape="each(matrix_like(input), vectors_of(input))", launch="geqrf(input, a, tau)",
       doc="QR factorisation as Householder reflectors.",
       grad="the reflectors of geqrf have no gradient formula here or in torch; use linalg.qr",
       batch="leading", autocast="float32")
kernel("householder_kernel(A: Tensor, tau: Tensor)", names=(), doc="The product of reflectors.",
       shape="matrix_like(A)", launch="householder_product(A, tau, out)",
       grad="linalg_householder_product composes it")
function("check_reflectors(op: name, a: Tensor, tau: Tensor) -> None", """
    check_matrix(op, a, "input")
    check(size(a, -2) >= size(a, -1), op,
          ": input.shape[-2] must be greater than or equal to input.shape[-1]")
    check(dim_of(tau) == dim_of(a) - 1, op,
          ": Expected tau to have one dimension less than input, but got tau.ndim equal to ",
          dim_of(tau), " and input.ndim is equal to ", dim_of(a))
    check(size(tau, -1) <= size(a, -1), op,
          ": input.shape[-1] must be greater than or equal to tau.shape[-1]")
    check(dtype(tau) == dtype(a), op, ": tau dtype ", dtype(tau), " does not match input dtype ",
          dtype(a))
    check(sizes(tau) == with_last(batch_of(a), size(tau, -1)), op,
          ": Expected batch dimensions of tau to be equal to those of input, but got ", sizes(tau))
         """)
# (I - tau_i v_i v_i^H) applied to x, for each reflector from the last to the first, or the other
# way.
function("reflect(a: Tensor, tau: Tensor, x: Tensor, adjoint_order: bool)", """
    ones = eye(size(a, -2), size(a, -1), dtype(a), strided, device(a))
    vectors = tril(a, -1) + ones
    result = x
    for step in range(size(tau, -1)):
        i = step if adjoint_order else size(tau, -1) - 1 - step
        v = columns_of(vectors, i, i + 1)
        scale = unsqueeze(columns_of(tau, i, i + 1), -1)
        factor = conj_now(scale) if adjoint_order else scale
        result = result - factor * matmul(v, matmul(adjoint_now(v), result))
    return result
         """)
composite("linalg_householder_product(input: Tensor, tau: Tensor)", """
    check_reflectors("linalg.householder_product", input, tau)
    if not is_recorded(input, tau):
        return householder_kernel(input, tau)
    ones = eye(size(input, -2), size(input, -1), dtype(input), strided, device(input))
    identity = expand(ones, sizes(input))
    if size(tau, -1) == 0:  # a constant, but part of the graph
        return column_major(identity + fill(input, 0))
    return column_major(reflect(input, tau, identity, False))
          """, out="cast",
          names=("linalg.householder_product", "torch.orgqr", "Tensor.orgqr"),
          doc="The first columns of a product of Householder reflectors.",
          batch=FIXED_DIMS, autocast="float32", node="LinalgHouseholderProductBackward0")
kernel("ormqr_kernel(A: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool)", names=(),
       shape="matrix_like(other)", launch="ormqr(A, tau, other, out, left, transpose)",
       doc="The product of reflectors times a matrix.", grad="ormqr composes it")
composite("ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = "
          "False)", """
    check_matrix("ormqr", input, "input")
    check_matrix("ormqr", other, "other")
    check(dim_of(input) - dim_of(tau) == 1,
          "ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to ",
          dim_of(tau), " and input.ndim is equal to ", dim_of(input))
    at = -2 if left else -1
    check(size(other, at) >= size(tau, -1), "ormqr: other.shape[", at,
          "] must be greater than or equal to tau.shape[-1]")
    check(size(other, at) == size(input, -2), "ormqr: other.shape[", at,
          "] must be equal to input.shape[-2]")
    check(size(tau, -1) <= size(input, -1),
          "ormqr: tau.shape[-1] must be less than or equal to input.shape[-1]")
    check(dim_of(input) == dim_of(other),
          "ormqr: Expected other to have the same number of dimensions as input, but got "
          "other.ndim equal to ", dim_of(other), " and input.ndim is equal to ", dim_of(input))
    check(dtype(tau) == dtype(input) and dtype(other) == dtype(input),
          "ormqr: Expected input, tau and other to have the same dtype")
    check(batch_of(input) == batch_of(other)
          and sizes(tau) == with_last(batch_of(input), size(tau, -1)),
          "ormqr: Expected equal batch dimensions of input, tau and other")
    if not is_recorded(input, tau, other):
        return ormqr_kernel(input, tau, other, left, transpose)
    if left:
        return column_major(reflect(input, tau, other, transpose))
    # c op(Q) = (op(Q)^H c^H)^H
    return column_major(adjoint_now(reflect(input, tau, adjoint_now(other), not transpose)))
          """, out=True,
          doc="A product of Householder reflectors times a matrix.",
          batch=FIXED_DIMS, autocast="float32", node="OrmqrBackward0")

kernel("linalg_eigh_kernel(A: Tensor, upper: bool, vectors: bool) -> tuple[eigenvalues, "
       "eigenvectors]", body=f"""
    values = new(with_last(batch_of(A), size(A, -1)), options_of(A, to_real(dtype(A))))
    info = info_for(A)
    v = matrices_like(A) if vectors else new([0], options(A))
    launch_eigh(A, values, v if vectors else no_tensor, upper, info)
    check_info("linalg.eigh", info, "{_NOT_CONVERGED}")
    return values, v
       """, node="LinalgEighBackward0", names=(),
       doc="Eigenvalues of Hermitian matrices, ascending, and on request their vectors.",
       grad={"A": "eigh_backward(grad_eigenvalues, grad_eigenvectors, eigenvalues, eigenvectors)"})
composite("linalg_eigh(input: Tensor, UPLO: str = 'L') -> tuple[eigenvalues, eigenvectors]", """
    check_square("linalg.eigh", input)
    return linalg_eigh_kernel(input, reads_upper(UPLO), True)
          """,
          names=("linalg.eigh",), out=True,
          doc="Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which one "
              "triangle is read.", ref="numpy.linalg.eigh",
          batch="leading", autocast="float32")
composite("linalg_eigvalsh(input: Tensor, UPLO: str = 'L')", """
    check_square("linalg.eigvalsh", input)
    return linalg_eigh_kernel(input, reads_upper(UPLO), is_recorded(input))[0]
          """, names=("linalg.eigvalsh",), out=True,
          ref="numpy.linalg.eigvalsh",
          doc="Eigenvalues, ascending, of Hermitian matrices, of which one triangle is read.",
          batch="leading", autocast="float32")
kernel("linalg_eig_kernel(A: Tensor, vectors: bool) -> tuple[eigenvalues, eigenvectors]", body=f"""
    check_square("linalg.eig", A)
    check(item_or(all(isfinite(A)), True),
          "torch.linalg.eig: input tensor should not contain infs or NaNs.")
    kind = options_of(A, to_complex(dtype(A)))
    values = new(with_last(batch_of(A), size(A, -1)), kind)
    info = info_for(A)
    v = new_column_major(sizes(A), kind) if vectors else new([0], kind)
    launch_eig(A, values, v if vectors else no_tensor, info)
    check_info("linalg.eig", info, "{_NOT_CONVERGED}")
    return values, v
       """,
       node="LinalgEigBackward0", names=(),
       doc="Eigenvalues of square matrices, and on request their vectors.",
       grad={"A": "eig_backward(grad_eigenvalues, grad_eigenvectors, A, eigenvalues, "
                  "eigenvectors)"})
composite("linalg_eig(input: Tensor) -> tuple[eigenvalues, eigenvectors]",
          "linalg_eig_kernel(input, True)", names=("linalg.eig",), out="cast",
          doc="Eigenvalues and eigenvectors of square matrices, complex.", ref="numpy.linalg.eig",
          batch="leading", autocast="float32")
composite("linalg_eigvals(input: Tensor)",
          "linalg_eig_kernel(input, is_recorded(input))[0]", names=("linalg.eigvals",), out="cast",
          ref="numpy.linalg.eigvals",
          doc="Eigenvalues of square matrices, complex.", batch="leading", autocast="float32")

kernel("linalg_svd_kernel(A: Tensor, full_matrices: bool, vectors: bool, driver: str | None) -> "
       "tuple[U, S, Vh]", body=f"""
    check_matrix("linalg.svd", A)
    check(driver is None,
          "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
          "backend.")
    rows = size(A, -2)
    columns = size(A, -1)
    k = min(rows, columns)
    s = new(with_last(batch_of(A), k), options_of(A, to_real(dtype(A))))
    info = info_for(A)
    u = new([0], options(A))
    vh = new([0], options(A))
    if vectors:
        left = with_matrix(batch_of(A), rows, rows if full_matrices else k)
        right = with_matrix(batch_of(A), columns if full_matrices else k, columns)
        u = new_column_major(left, options(A))
        vh = new_column_major(right, options(A))
    launch_svd(A, u if vectors else no_tensor, s, vh if vectors else no_tensor, info,
               divide_and_conquer)
    check_info("linalg.svd", info, "{_NOT_CONVERGED}")
    return u, s, vh
       """, node="LinalgSvdBackward0", names=(),
       doc="Singular values, descending, and on request their vectors.",
       grad={"A": "svd_backward(grad_U, grad_S, grad_Vh, U, S, Vh)"})
composite("linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> "
          "tuple[U, S, Vh]",
          "linalg_svd_kernel(A, full_matrices, True, driver)", names=("linalg.svd",), out=True,
          ref="numpy.linalg.svd",
          doc="U diag(S) Vh = A, the singular values descending.",
          batch="leading", autocast="float32")
composite("linalg_svdvals(A: Tensor, *, driver: str | None = None)",
          "linalg_svd_kernel(A, False, is_recorded(A), driver)[1]", names=("linalg.svdvals",),
          out=True, doc="Singular values, descending.",
          batch="leading", autocast="float32")
composite("svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[U, S, V]", """
    check_matrix("svd", input, "input")
    if compute_uv:
        u, s, vh = linalg_svd_kernel(input, not some, True, None)
        return u, s, adjoint_now(vh)
    # torch returns zeros in place of the vectors that were not asked for
    left = with_matrix(batch_of(input), size(input, -2), size(input, -2))
    right = with_matrix(batch_of(input), size(input, -1), size(input, -1))
    return (zeros(left, dtype(input), strided, device(input)), linalg_svdvals(input),
            zeros(right, dtype(input), strided, device(input)))
          """,
          out=True,
          doc="U diag(S) V^H = input, the singular values descending.",
          batch="leading", autocast="float32")
# Singular values (or absolute eigenvalues) at most max(atol, rtol * the largest) count as zero.
function("pinv_cutoff(s: Tensor, atol: Tensor | None, rtol: Tensor | None, default: float)", """
    absolute = wrap_number(0.0) if atol is None else atol
    relative = rtol if rtol is not None else wrap_number(default)
    if rtol is None and atol is not None:
        relative = where(gt(atol, 0.0), 0.0, wrap_number(default))
    low = unsqueeze(absolute, -1) if dim_of(absolute) > 0 else absolute
    share = unsqueeze(relative, -1) if dim_of(relative) > 0 else relative
    return maximum(to(low, s), share * amax(s, [-1], True))
         """)
kernel("linalg_pinv(A: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool)", body="""
    check_matrix("linalg.pinv", A)
    if hermitian:
        check_square("linalg.pinv", A)
    if numel(A) == 0:
        return new(with_matrix(batch_of(A), size(A, -1), size(A, -2)), options(A))
    default = epsilon(to_real(dtype(A))) * max(size(A, -1), size(A, -2))
    if hermitian:
        values, v = linalg_eigh_kernel(A, False, True)
        least = pinv_cutoff(abs(values), atol, rtol, default)
        inverted = where(gt(abs(values), least), reciprocal(values), 0.0)
        return matmul(v * to(unsqueeze(inverted, -2), A), adjoint_now(v))
    u, s, vh = linalg_svd_kernel(A, False, True, None)
    inverted = where(gt(s, pinv_cutoff(s, atol, rtol, default)), reciprocal(s), 0.0)
    return matmul(adjoint_now(vh) * to(unsqueeze(inverted, -2), A), adjoint_now(u))
       """,
       names=("linalg._pinv",), doc="Moore-Penrose inverses.",
       grad={"A": "pinv_backward(grad, A, out)"}, batch="leading")
kernel("linalg_lstsq_kernel(A: Tensor, B: Tensor, rcond: float, driver: str) -> tuple[solution, "
       "rank, singular_values]", names=("linalg._lstsq",),
       doc="Least squares of batches of one shape.",
       grad={"A": "lstsq_backward_matrix(grad, A, B, solution)",
             "B": "lstsq_backward_right(grad, A)"}, batch="lstsq")

composite("linalg_multi_dot(tensors: list[Tensor])", names=("linalg.multi_dot",), out=True,
          ref="numpy.linalg.multi_dot",
          doc="Product of matrices in the order of least work; the first and the last may be "
              "vectors.",
          batch="multi_dot", autocast="lower_precision")
# Of n from 1 on, by repeated squaring.
function("positive_power(a: Tensor, n: int)", """
    if n == 1:
        return a
    half = positive_power(a, n // 2)
    square = matmul(half, half)
    return square if n % 2 == 0 else matmul(square, a)
         """)
composite("matrix_power(input: Tensor, n: int)", """
    check(dim_of(input) >= 2,
          "linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    check(size(input, -1) == size(input, -2),
          "linalg.matrix_power: A must be batches of square matrices, but they are ",
          size(input, -2), " by ", size(input, -1), " matrices")
    if n == 0:  # a constant, but part of the graph
        return square_of(input, size(input, -1)) + fill(input, 0)
    if n > 0:
        return clone(input) if n == 1 else positive_power(input, n)
    inverse = linalg_inv(input)
    # -n is no number where n is the least one
    return inverse if n == -1 else matmul(positive_power(inverse, -(n + 1)), inverse)
          """, out=True,
          names=("torch.matrix_power", "Tensor.matrix_power"),
          doc="input multiplied with itself n times; a negative n multiplies the inverse.",
          ref="numpy.linalg.matrix_power",
          batch="leading", autocast="lower_precision")
composite("linalg_matrix_power(input: Tensor, n: int)", "matrix_power(input, n)", out=True,
          names=("linalg.matrix_power",),
          doc="input multiplied with itself n times; a negative n multiplies the inverse.",
          autocast="lower_precision")
# The [13/13] Pade approximant of exp, and the norm up to which it is exact in double precision:
# Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).
_PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
         10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
_PADE_BOUND = 5.371920351148152
_C = [c / _PADE[0] for c in _PADE]
function("pade_exp(a: Tensor)", f"""
    one = square_of(a, size(a, -1))
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)
    odd = matmul(a, matmul(a6, a6 * {_C[13]} + a4 * {_C[11]} + a2 * {_C[9]})
                 + a6 * {_C[7]} + a4 * {_C[5]} + a2 * {_C[3]} + one * {_C[1]})
    even = (matmul(a6, a6 * {_C[12]} + a4 * {_C[10]} + a2 * {_C[8]})
            + a6 * {_C[6]} + a4 * {_C[4]} + a2 * {_C[2]} + one)
    return solved(even - odd, even + odd, True)
         """)
composite("matrix_exp(input: Tensor)", f"""
    if is_reduced(dtype(input)):
        return to(matrix_exp(to(input, float32)), dtype(input))
    check_square("linalg.matrix_exp", input)
    if numel(input) == 0:
        return clone(input)
    norms = amax(sum(abs(detach(input)), [-2], False), [-1], False)
    halvings = ceil(log2(clamp_min(norms / {_PADE_BOUND}, 1.0)))
    column = spread_number(halvings)
    most = item_or(to(contiguous(amax(halvings)), float64), 0.0)
    result = pade_exp(input * to(exp2(neg(column)), input))
    for step in range(int(most) if most < 1e4 else 0):  # which NaN is not
        result = where(gt(column, step), matmul(result, result), result)
    return contiguous(result)
          """, doc="Exponential of square matrices, I + A + A A / 2! + ...",
          ref="scipy.linalg.expm",
          batch="leading", node="LinalgMatrixExpBackward0")
composite("linalg_matrix_exp(input: Tensor)", "matrix_exp(input)", names=("linalg.matrix_exp",),
          doc="Exponential of square matrices, I + A + A A / 2! + ...",
          node="LinalgMatrixExpBackward0")
composite("pinverse(input: Tensor, rcond: float = 1e-15)",
          "linalg_pinv(input, None, wrap_number(rcond), False)", doc="Moore-Penrose inverses.",
          batch="leading", autocast="float32")
