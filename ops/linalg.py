"""Linear algebra: inverses, factorisations, eigenvalues, determinants and solvers."""
from ops.schema import FIXED_DIMS, composite, kernel

_EX = "*, check_errors: bool = False"

kernel(f"linalg_inv_ex(A: Tensor, {_EX}) -> tuple[inverse, info]", names=("linalg.inv_ex",),
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
       "tuple[L, info]",
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
    inner = linalg_solve_triangular(adjoint_now(L) if upper else L, input, False, True, False)
    return linalg_solve_triangular(L if upper else adjoint_now(L), inner, True, True, False)
          """, out="cast",
          doc="Solves A x = input for A given by its Cholesky factor.",
          batch=FIXED_DIMS, autocast="float32", node="CholeskySolveBackward0")
composite("cholesky_inverse(input: Tensor, upper: bool = False)", """
    check_square("cholesky_inverse", input, "input")
    n = size(input, -1)
    return cholesky_solve(eye(n, n, dtype(input), strided, device(input)), input, upper)
          """, out="cast",
          doc="Inverse of the matrix with the given Cholesky factor.",
          batch="leading", autocast="float32", node="CholeskyInverseBackward0")

kernel("linalg_triangular_kernel(A: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: "
       "bool)", node="LinalgSolveTriangularBackward0", names=(),
       doc="Triangular solve of batches of one shape.",
       grad={"A": "triangular_backward_matrix(grad, A, out, upper, left, unitriangular)",
             "B": "linalg_triangular_kernel(adjoint(A), grad, not upper, left, unitriangular)"})
composite("linalg_solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, "
          "unitriangular: bool = False)",
          names=("linalg.solve_triangular",), out=True,
          doc="Solves A X = B (or X A = B) with A triangular.",
          batch=FIXED_DIMS)
composite("triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, "
          "unitriangular: bool = False)"
          " -> tuple[solution, cloned_coefficient]", out=True,
          doc="Solves A X = input with A triangular; returns A too.",
          batch=FIXED_DIMS, autocast="float32", node="TriangularSolveBackward0")

kernel("linalg_lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> "
       "tuple[LU, pivots, info]",
       names=("linalg.lu_factor_ex",), out=True,
       doc="P L U = A, L and U packed into one matrix; info is nonzero where U is singular.",
       grad={"A": "lu_backward(grad, LU, pivots)"}, batch="leading")
composite("linalg_lu_factor(A: Tensor, *, pivot: bool = True) -> tuple[LU, pivots]", """
    lu, pivots, info = linalg_lu_factor_ex(A, pivot, True)
    return lu, pivots
          """,
          names=("linalg.lu_factor",), out=True,
          doc="P L U = A, L and U packed into one matrix.", batch="leading")
kernel("lu_permutation_matrix(pivots: Tensor, like: Tensor)", names=(), doc="P of A = P L U.",
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
          batch=FIXED_DIMS, node="LuUnpackBackward0")
composite("linalg_lu(A: Tensor, *, pivot: bool = True) -> tuple[P, L, U]", """
    lu, pivots, info = linalg_lu_factor_ex(A, pivot, False)
    return lu_unpack(lu, pivots, True, pivot)
          """, names=("linalg.lu",),
          out=True, doc="P L U = A.",
          batch="leading", node="LinalgLuBackward0")
kernel("linalg_lu_solve_kernel(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool)",
       node="LinalgLuSolveBackward0", names=(),
       doc="Solves by a packed factorisation; batches of one shape.",
       grad={"B": "linalg_lu_solve_kernel(LU, pivots, grad, left, not adjoint)"})
composite("linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: "
          "bool = False)",
          names=("linalg.lu_solve",), out=True,
          doc="Solves A X = B (or X A = B) for A given by linalg.lu_factor.",
          batch=FIXED_DIMS, node="LinalgLuSolveBackward0")
composite("lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor)",
          "linalg_lu_solve(LU_data, LU_pivots, input, True, False)",
          names=("torch.lu_solve", "Tensor.lu_solve"), out=True,
          doc="Solves A X = input for A given by linalg.lu_factor.",
          autocast="float32", node="LinalgLuSolveBackward0")

_LDL = ("L D L^T = A of symmetric matrices, or L D L^H of Hermitian ones, read from their lower "
        "triangles")
kernel("linalg_ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> "
       "tuple[LD, pivots, info]",
       names=("linalg.ldl_factor_ex",), out=True,
       doc=f"{_LDL}; info is nonzero where D is singular.",
       samples=("fixed([[2.0, 1], [1, 3]])", "fixed([[2.0, 1], [1, 3]]), hermitian=True"),
       grad="the factors of ldl_factor have no gradient formula here or in torch; use linalg.solve",
       batch="leading")
composite("linalg_ldl_factor(A: Tensor, *, hermitian: bool = False) -> tuple[LD, pivots]", """
    ld, pivots, info = linalg_ldl_factor_ex(A, hermitian, True)
    return ld, pivots
          """,
          names=("linalg.ldl_factor",), out=True,
          doc=f"{_LDL}.", samples=("fixed([[2.0, 1], [1, 3]])",
                                   "fixed([[2.0, 1], [1, 3]]), hermitian=True"),
          batch="leading")
kernel("linalg_ldl_solve_kernel(LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool)", names=(),
       node="LinalgLdlSolveBackward0",
       doc="Solves by a packed factorisation; batches of one shape.",
       grad={"LD": "missing_gradient('linalg.ldl_solve: LD')",
             "B": "linalg_ldl_solve_kernel(LD, pivots, grad, True) if hermitian else "
                  "conj(linalg_ldl_solve_kernel(LD, pivots, conj(grad), False))"})
composite("linalg_ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False)",
          names=("linalg.ldl_solve",), out=True,
          doc="Solves A X = B for A given by linalg.ldl_factor.",
          samples=("fixed([[2.0, 0, 0], [0.5, 3, 0], [-1, 0.2, 1.5]]), fixed([1, 3, 3], 'int32'), "
                   "x(3, 2)",
                   "fixed([[2.0, 0], [0.5, 3]]), fixed([1, 2], 'int32'), x(2, 1), hermitian=True"),
          batch=FIXED_DIMS)

kernel("linalg_solve_kernel(A: Tensor, B: Tensor, left: bool) -> tuple[result, LU, pivots, info]",
       node="LinalgSolveExBackward0", names=(),
       doc="Solves A X = B (or X A = B); batches of one shape.",
       grad={"A, B": "solve_gradients(grad, A, result, LU, pivots, left)"})
composite("linalg_solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) "
          "-> tuple[result, info]",
          names=("linalg.solve_ex",), out=True,
          doc="Solves A X = B (or X A = B); info is nonzero where A is singular.",
          batch=FIXED_DIMS, node="LinalgSolveExBackward0")
composite("linalg_solve(A: Tensor, B: Tensor, *, left: bool = True)",
          "linalg_solve_ex(A, B, left, True)[0]",
          names=("linalg.solve",), out=True, doc="Solves A X = B (or X A = B).",
          ref="numpy.linalg.solve",
          autocast="float32", node="LinalgSolveExBackward0")

kernel("linalg_det_kernel(A: Tensor) -> tuple[result, LU]", node="LinalgDetBackward0", names=(),
       doc="Determinants, and the factorisation they come from.",
       grad={"A": "det_backward(grad, A, result, LU)"})
composite("linalg_det(A: Tensor)", "linalg_det_kernel(A)[0]", names=("linalg.det",), out=True,
          doc="Determinants.", ref="numpy.linalg.det",
          batch="leading")
composite("det(input: Tensor)", "linalg_det_kernel(input)[0]", doc="Determinants.", batch="leading")
kernel("linalg_slogdet(A: Tensor) -> tuple[sign, logabsdet]", names=("linalg.slogdet",), out=True,
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

kernel("linalg_qr(A: Tensor, mode: str = 'reduced') -> tuple[Q, R]", names=("linalg.qr",), out=True,
       ref="numpy.linalg.qr",
       doc="Q R = A with orthonormal columns and an upper triangle; mode 'reduced', 'complete' or "
           "'r' (R alone).",
       grad={"A": "qr_backward(grad_Q, grad_R, A, Q, R, mode)"},
       batch="leading", autocast="float32")
composite("qr(input: Tensor, some: bool = True) -> tuple[Q, R]",
          'linalg_qr(input, "reduced" if some else "complete")', out=True, doc="Q R = input.",
          batch="leading", autocast="float32")
kernel("geqrf(input: Tensor) -> tuple[a, tau]", out="cast",
       doc="QR factorisation as Householder reflectors.",
       grad="the reflectors of geqrf have no gradient formula here or in torch; use linalg.qr",
       batch="leading", autocast="float32")
kernel("householder_kernel(A: Tensor, tau: Tensor)", names=(), doc="The product of reflectors.",
       grad="linalg_householder_product composes it")
composite("linalg_householder_product(input: Tensor, tau: Tensor)", out="cast",
          names=("linalg.householder_product", "torch.orgqr", "Tensor.orgqr"),
          doc="The first columns of a product of Householder reflectors.",
          batch=FIXED_DIMS, autocast="float32", node="LinalgHouseholderProductBackward0")
kernel("ormqr_kernel(A: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool)", names=(),
       doc="The product of reflectors times a matrix.", grad="ormqr composes it")
composite("ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = "
          "False)", out=True,
          doc="A product of Householder reflectors times a matrix.",
          batch=FIXED_DIMS, autocast="float32", node="OrmqrBackward0")

kernel("linalg_eigh_kernel(A: Tensor, upper: bool, vectors: bool) -> tuple[eigenvalues, "
       "eigenvectors]", node="LinalgEighBackward0", names=(),
       doc="Eigenvalues of Hermitian matrices, ascending, and on request their vectors.",
       grad={"A": "eigh_backward(grad_eigenvalues, grad_eigenvectors, eigenvalues, eigenvectors)"})
composite("linalg_eigh(A: Tensor, UPLO: str = 'L') -> tuple[eigenvalues, eigenvectors]", """
    check_square("linalg.eigh", A)
    return linalg_eigh_kernel(A, reads_upper(UPLO), True)
          """,
          names=("linalg.eigh",), out=True,
          doc="Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which one "
              "triangle is read.", ref="numpy.linalg.eigh",
          batch="leading", autocast="float32")
composite("linalg_eigvalsh(A: Tensor, UPLO: str = 'L')", """
    check_square("linalg.eigvalsh", A)
    return linalg_eigh_kernel(A, reads_upper(UPLO), records(A))[0]
          """, names=("linalg.eigvalsh",), out=True,
          ref="numpy.linalg.eigvalsh",
          doc="Eigenvalues, ascending, of Hermitian matrices, of which one triangle is read.",
          batch="leading", autocast="float32")
kernel("linalg_eig_kernel(A: Tensor, vectors: bool) -> tuple[eigenvalues, eigenvectors]",
       node="LinalgEigBackward0", names=(),
       doc="Eigenvalues of square matrices, and on request their vectors.",
       grad={"A": "eig_backward(grad_eigenvalues, grad_eigenvectors, A, eigenvalues, "
                  "eigenvectors)"})
composite("linalg_eig(A: Tensor) -> tuple[eigenvalues, eigenvectors]", "linalg_eig_kernel(A, True)",
          names=("linalg.eig",), out="cast",
          doc="Eigenvalues and eigenvectors of square matrices, complex.", ref="numpy.linalg.eig",
          batch="leading", autocast="float32")
composite("linalg_eigvals(A: Tensor)",
          "linalg_eig_kernel(A, records(A))[0]", names=("linalg.eigvals",), out="cast",
          ref="numpy.linalg.eigvals",
          doc="Eigenvalues of square matrices, complex.", batch="leading", autocast="float32")

kernel("linalg_svd_kernel(A: Tensor, full_matrices: bool, vectors: bool, driver: str | None) -> "
       "tuple[U, S, Vh]", node="LinalgSvdBackward0", names=(),
       doc="Singular values, descending, and on request their vectors.",
       grad={"A": "svd_backward(grad_U, grad_S, grad_Vh, U, S, Vh)"})
composite("linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> "
          "tuple[U, S, Vh]",
          "linalg_svd_kernel(A, full_matrices, True, driver)", names=("linalg.svd",), out=True,
          ref="numpy.linalg.svd",
          doc="U diag(S) Vh = A, the singular values descending.",
          batch="leading", autocast="float32")
composite("linalg_svdvals(A: Tensor, *, driver: str | None = None)",
          "linalg_svd_kernel(A, False, records(A), driver)[1]", names=("linalg.svdvals",),
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
kernel("linalg_pinv(A: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool)",
       names=("linalg._pinv",), doc="Moore-Penrose inverses.",
       grad={"A": "pinv_backward(grad, A, out)"}, batch="leading")
kernel("linalg_lstsq_kernel(A: Tensor, B: Tensor, rcond: float, driver: str) -> tuple[solution, "
       "rank, singular_values]", names=("linalg._lstsq",),
       doc="Least squares of batches of one shape.",
       grad={"A": "lstsq_backward_matrix(grad, A, B, solution)",
             "B": "lstsq_backward_right(grad, A)"})

composite("linalg_multi_dot(tensors: list[Tensor])", names=("linalg.multi_dot",), out=True,
          ref="numpy.linalg.multi_dot",
          doc="Product of matrices in the order of least work; the first and the last may be "
              "vectors.",
          batch=FIXED_DIMS, autocast="lower_precision")
composite("matrix_power(input: Tensor, n: int)", out=True,
          names=("torch.matrix_power", "Tensor.matrix_power"),
          doc="input multiplied with itself n times; a negative n multiplies the inverse.",
          ref="numpy.linalg.matrix_power",
          batch="leading", autocast="lower_precision")
composite("linalg_matrix_power(A: Tensor, n: int)", "matrix_power(A, n)", out=True,
          names=("linalg.matrix_power",),
          doc="A multiplied with itself n times; a negative n multiplies the inverse.",
          autocast="lower_precision")
composite("matrix_exp(input: Tensor)", doc="Exponential of square matrices, I + A + A A / 2! + ...",
          ref="scipy.linalg.expm",
          batch="leading", node="LinalgMatrixExpBackward0")
composite("linalg_matrix_exp(A: Tensor)", "matrix_exp(A)", names=("linalg.matrix_exp",),
          doc="Exponential of square matrices, I + A + A A / 2! + ...",
          node="LinalgMatrixExpBackward0")
composite("pinverse(input: Tensor, rcond: float = 1e-15)",
          "linalg_pinv(input, None, wrap_number(rcond), False)", doc="Moore-Penrose inverses.",
          batch="leading", autocast="float32")
