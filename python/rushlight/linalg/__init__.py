"""Linear algebra: decompositions, solvers, norms and functions of matrices."""

from rushlight._C import LinAlgError
from rushlight._table import linalg as _native
from rushlight.linalg._norms import cond, matrix_norm, matrix_rank, norm
from rushlight.linalg._products import diagonal, tensorinv, tensorsolve, vander, vecdot
from rushlight.linalg._solvers import lstsq, pinv
from rushlight.overrides import _make_overridable

_FROM_TABLE = (
    "cholesky", "cholesky_ex", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lu",
    "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_power", "multi_dot",
    "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "vector_norm",
)  # fmt: skip
globals().update({name: getattr(_native, name) for name in (*_FROM_TABLE, "_lstsq", "_pinv")})

__all__ = [
    *_FROM_TABLE, "LinAlgError", "cond", "diagonal", "lstsq",
    "matrix_norm", "matrix_rank", "norm", "pinv", "tensorinv", "tensorsolve", "vander",
    "vecdot",
]  # fmt: skip

_make_overridable(globals(), __name__)
