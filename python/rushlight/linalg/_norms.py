"""Norms of matrices, and what they tell: condition and rank."""

from __future__ import annotations

import math

import rushlight
from rushlight._autocast import autocasts
from rushlight._integers import is_integer, wrapped_dim
from rushlight._out import into
from rushlight._table import linalg as _native
from rushlight.linalg._checks import check_matrix, check_square, eps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import _dtype

_ORDERS = (2, -2, 1, -1, math.inf, -math.inf)


def matrix_norm(
    input: Tensor,
    ord: float | str | None = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Any:
    """Norm of the matrices in two dims.

    Args:
        ord: 'fro' (root of the sum of squares), 'nuc' (sum of the singular values), inf and -inf
            (largest and smallest row sum), 1 and -1 (column sum), 2 and -2 (largest and smallest
            singular value).
        dim: the dims of the rows and of the columns.
        keepdim: keep both dims with size 1.
    """
    check_matrix("linalg.matrix_norm", input)
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(dims) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dims}")
    rows, columns = (wrapped_dim(d, input.dim()) for d in dims)
    if rows == columns:
        raise RuntimeError(
            f"linalg.matrix_norm: dims must be different. Got ({dims[0]}, {dims[1]})"
        )
    if isinstance(ord, str):
        if ord not in ("fro", "nuc"):
            raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
        if ord == "fro":
            return into(out, _native.vector_norm(input, 2, (rows, columns), keepdim, dtype=dtype))
    elif ord not in _ORDERS:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if dtype is not None:
        input = input.to(dtype)
    if ord == "nuc" or abs(ord) == 2:
        values = _native.svdvals(input.movedim((rows, columns), (-2, -1)))
        result = (
            values.sum(-1) if ord == "nuc" else _largest(values, -1) if ord > 0 else values.amin(-1)
        )
        if keepdim:
            for d in sorted((rows, columns)):
                result = result.unsqueeze(d)
        return into(out, result)
    summed, ranged = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = _native.vector_norm(input, 1, summed, True)
    result = _largest(sums, ranged, True) if ord > 0 else sums.amin(ranged, True)
    return into(out, result if keepdim else result.squeeze((rows, columns)))


def _largest(sizes, dim, keepdim=False):
    """The largest of numbers that are not negative: 0 of none."""
    if sizes.shape[dim] == 0:
        return sizes.sum(dim, keepdim)
    return sizes.amax(dim, keepdim)


def norm(
    input: Tensor,
    ord: float | str | None = None,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
) -> Tensor:
    """Norm of a vector or a matrix: of all elements, of one dim (a vector) or of two dims (a
    matrix)."""
    if ord is not None:
        if dim is not None and not is_integer(dim) and len(dim) not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim}"
            )
        if dim is None and input.dim() not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                f"{input.dim()}D"
            )
    if isinstance(dim, (tuple, list)) and len(dim) == 1:
        dim = dim[0]
    matrix = ord is not None and (
        (dim is None and input.dim() == 2) or (dim is not None and not is_integer(dim))
    )
    if matrix:
        return matrix_norm(
            input, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype, out=out
        )
    if isinstance(ord, str):
        raise RuntimeError(
            f"linalg.norm: the order {ord} is of matrices, and the input is a vector"
        )
    return into(
        out, _native.vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    )


@autocasts("float32")
def cond(input: Tensor, p: float | None = None, *, out: Tensor | None = None) -> Any:
    """Condition number of matrices in a norm; of the 2-norm by default."""
    check_matrix("linalg.cond", input)
    if p is None or p in (2, -2):
        values = _native.svdvals(input)
        if 0 in input.shape[-2:]:
            return into(out, input.new_zeros(input.shape[:-2]).abs())
        largest, smallest = values.narrow(-1, 0, 1), values.narrow(-1, -1, 1)
        ratio = smallest / largest if p == -2 else largest / smallest
        return into(out, ratio.squeeze(-1))
    check_square("linalg.cond", input)
    if input.numel() == 0:
        return into(out, input.new_zeros(input.shape[:-2]).abs())
    if p != "nuc" and p != "fro" and p not in _ORDERS:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    inverse, info = _native.inv_ex(input)
    result = matrix_norm(input, p) * matrix_norm(inverse, p)
    return into(out, rushlight.where(info == 0, result, math.inf))


@autocasts("float32")
def matrix_rank(
    input: Tensor,
    *args: Any,
    tol: Any = None,
    atol: float | None = None,
    rtol: float | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Any:
    """Number of singular values above max(atol, rtol * the largest).

    Args:
        tol: the older name of atol, then alone in deciding.
        atol, rtol: numbers or tensors of the batch's shape; rtol is max(rows, columns) * eps if
            neither is given.
        hermitian: the matrices are Hermitian, so that their eigenvalues tell.
    """
    if args:
        tol, hermitian = args[0], args[1] if len(args) > 1 else hermitian
    check_matrix("linalg.matrix_rank", input)
    if tol is not None:
        atol, rtol = tol, 0.0
    for name, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, rushlight.Tensor) and value.is_complex():
            raise RuntimeError(
                f"linalg.matrix_rank: {name} tensor of complex type is not supported."
            )
    if hermitian:
        check_square("linalg.matrix_rank", input)
    if input.numel() == 0:
        return into(
            out, rushlight.zeros(input.shape[:-2], dtype=rushlight.int64, device=input.device)
        )
    values = (
        _native.eigvalsh(input.detach()).abs() if hermitian else _native.svdvals(input.detach())
    )
    if rtol is None:
        rtol = eps(input) * max(input.shape[-2:])
        if atol is not None:
            none_given = rushlight.as_tensor(atol, dtype=values.dtype) > 0
            rtol = rushlight.where(none_given, 0.0, rushlight.as_tensor(rtol, dtype=values.dtype))
    absolute = rushlight.as_tensor(0.0 if atol is None else atol, dtype=values.dtype)
    relative = rushlight.as_tensor(rtol, dtype=values.dtype)
    cutoff = rushlight.maximum(absolute, relative * values.amax(-1)).unsqueeze(-1)
    return into(out, (values > cutoff).sum(-1))
