"""Linear algebra: decompositions, solvers, norms and functions of matrices."""

from __future__ import annotations

from rushlight._C import (
    LinAlgError as LinAlgError,
)
from rushlight._table import linalg as _native
from rushlight.linalg._norms import (
    cond as cond,
    matrix_norm as matrix_norm,
    matrix_rank as matrix_rank,
    norm as norm,
)
from rushlight.linalg._products import (
    diagonal as diagonal,
    tensorinv as tensorinv,
    tensorsolve as tensorsolve,
    vander as vander,
    vecdot as vecdot,
)
from rushlight.linalg._solvers import (
    lstsq as lstsq,
    pinv as pinv,
)
from rushlight.overrides import _make_overridable

common_notes: dict[str, str] = {}  # torch's documentation is written with them

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight._C._linalg import *  # noqa: F403

_FROM_TABLE = (
    "cholesky", "cholesky_ex", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lu",
    "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_power", "multi_dot",
    "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "vector_norm",
)  # fmt: skip
globals().update({name: getattr(_native, name) for name in (*_FROM_TABLE, "_lstsq", "_pinv")})

if not TYPE_CHECKING:  # who reads types reads the imports
    __all__ = [
        *_FROM_TABLE, "LinAlgError", "cond", "diagonal", "lstsq",
        "matrix_norm", "matrix_rank", "norm", "pinv", "tensorinv", "tensorsolve", "vander",
        "vecdot",
    ]  # fmt: skip

_make_overridable(globals(), __name__)
