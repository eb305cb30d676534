"""Products and functions of matrices."""

from __future__ import annotations

import math

import rushlight
from rushlight._autocast import autocasts
from rushlight._out import into
from rushlight._table import linalg as _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonals of matrices, as the last dim."""
    return rushlight.diagonal(A, offset, dim1, dim2)


@autocasts("lower_precision")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Any:
    """Sum of conj(x) * y over a dim."""
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype}"
        )
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected vectors of same dtype, but got {x.dtype} and {y.dtype}"
        )
    if x.dim() == 1 and x.shape == y.shape and dim in (0, -1):
        return into(out, rushlight.vdot(x, y))
    return into(out, (x.conj() * y).sum(dim))


def vander(x: Tensor, N: Any = None) -> Any:
    """Vandermonde matrices: the powers 0 to N - 1 of each element, in a row."""
    if x.dim() == 0:
        x = x.unsqueeze(0)
    count = x.shape[-1] if N is None else N
    if N is not None and N <= 1:
        raise RuntimeError("N must be greater than 1.")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(rushlight.int64)
    repeated = x.unsqueeze(-1).expand(*x.shape, max(count - 1, 0))
    powers = repeated.cumprod(-1)
    return rushlight.cat([powers.new_ones((*x.shape, 1)), powers], -1)


@autocasts("float32")
def tensorinv(input: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Any:
    """Inverse of a tensor for tensordot over its first `ind` dims."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, columns = math.prod(input.shape[:ind]), math.prod(input.shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            "prod(self.shape[:ind]), "
            f"but got {columns} != {rows}"
        )
    result = _native.inv(input.reshape(rows, columns)).reshape(
        *input.shape[ind:], *input.shape[:ind]
    )
    return into(out, result)


@autocasts("float32")
def tensorsolve(
    input: Tensor, other: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None
) -> Any:
    """X of tensordot(input, X) = other; `dims` of input are moved to its end first."""
    if dims is not None:
        input = input.movedim(tuple(dims), tuple(range(input.dim() - len(dims), input.dim())))
    shape = input.shape[other.dim() :]
    if math.prod(shape) != math.prod(input.shape[: other.dim()]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            "prod(self.shape[:other.ndim]), "
            f"but got {math.prod(shape)} != {math.prod(input.shape[: other.dim()])}"
        )
    return into(
        out, _native.solve(input.reshape([math.prod(shape)] * 2), other.flatten()).reshape(shape)
    )
