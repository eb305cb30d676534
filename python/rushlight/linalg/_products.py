"""Products and functions of matrices."""

import math

import rushlight
from rushlight._out import into
from rushlight._table import linalg as _native


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices, as the last dim."""
    return rushlight.diagonal(A, offset, dim1, dim2)


def vecdot(x, y, *, dim=-1, out=None):
    """Sum of conj(x) * y over a dim."""
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype}"
        )
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected vectors of same dtype, but got {x.dtype} and {y.dtype}"
        )
    return into(out, (x.conj() * y).sum(dim))


def vander(x, N=None):
    """Vandermonde matrices: the powers 0 to N - 1 of each element, in a row."""
    if x.dim() == 0:
        x = x.unsqueeze(0)
    count = x.shape[-1] if N is None else N
    if N is not None and N <= 1:
        raise RuntimeError("N must be greater than 1.")
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(rushlight.int64)
    repeated = x.unsqueeze(-1).expand(*x.shape, max(count - 1, 0))
    ones = rushlight.ones(*x.shape, 1, dtype=x.dtype)
    return rushlight.cat([ones, repeated.cumprod(-1)], -1)


def multi_dot(tensors, *, out=None):
    """Product of matrices in the order of least work; the first and the last may be vectors."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError("multi_dot(): expected at least 2 tensors but got " + str(len(tensors)))
    for i, t in enumerate(tensors):
        end = i in (0, len(tensors) - 1)
        if t.dim() != 2 and not (end and t.dim() == 1):
            raise RuntimeError(
                f"multi_dot(): tensor {i} must be {'1D or 2D' if end else '2D'} but got {t.dim()}D"
            )
        if t.dtype != tensors[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{tensors[0].dtype} and tensor {i} {t.dtype}"
            )
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(1)
    for i in range(len(tensors) - 1):
        if tensors[i].shape[1] != tensors[i + 1].shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i].shape)} and "
                f"{list(tensors[i + 1].shape)} cannot be multiplied"
            )
    result = _multiply(tensors, _best_splits(tensors), 0, len(tensors) - 1)
    if first:
        result = result.squeeze(0)
    if last:
        result = result.squeeze(-1)
    return into(out, result)


def _best_splits(tensors):
    """For each run of matrices, where the cheapest order splits it: the textbook dynamic
    programme."""
    sizes = [tensors[0].shape[0], *(t.shape[1] for t in tensors)]
    count = len(tensors)
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            choices = (
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
            cost[i, j], split[i, j] = min(choices)
    return split


def _multiply(tensors, split, i, j):
    if i == j:
        return tensors[i]
    k = split[i, j]
    return _multiply(tensors, split, i, k) @ _multiply(tensors, split, k + 1, j)


def tensorinv(A, ind=2, *, out=None):
    """Inverse of a tensor for tensordot over its first `ind` dims."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, columns = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            "prod(self.shape[:ind]), "
            f"but got {columns} != {rows}"
        )
    result = _native.inv(A.reshape(rows, columns)).reshape(*A.shape[ind:], *A.shape[:ind])
    return into(out, result)


def tensorsolve(A, B, dims=None, *, out=None):
    """X of tensordot(A, X) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    shape = A.shape[B.dim() :]
    if math.prod(shape) != math.prod(A.shape[: B.dim()]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            "prod(self.shape[:other.ndim]), "
            f"but got {math.prod(shape)} != {math.prod(A.shape[: B.dim()])}"
        )
    return into(out, _native.solve(A.reshape(-1, math.prod(shape)), B.flatten()).reshape(shape))
