"""Products and functions of matrices."""

import functools
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
    given = tensors[0].dim(), tensors[-1].dim()
    shapes, dtype = [], tensors[0].dtype
    for i, t in enumerate(tensors):
        shape = t.shape
        if len(shape) != 2:
            end = i in (0, len(tensors) - 1)
            if not end or len(shape) != 1:
                raise RuntimeError(
                    f"multi_dot(): tensor {i} must be {'1D or 2D' if end else '2D'} but got "
                    f"{t.dim()}D"
                )
            tensors[i] = t.unsqueeze(-1 if i else 0)
            shape = tensors[i].shape
        if t.dtype != dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{dtype} and tensor {i} {t.dtype}"
            )
        shapes.append(shape)
    rows, columns = zip(*shapes)
    if rows[1:] != columns[:-1]:
        i = next(i for i, (m, n) in enumerate(zip(columns, rows[1:])) if m != n)
        raise RuntimeError(
            f"multi_dot(): tensors {i} and {i + 1} with shapes {list(shapes[i])} and "
            f"{list(shapes[i + 1])} cannot be multiplied"
        )
    for i, j in _best_steps((*rows, columns[-1])):
        tensors[i] = tensors[i] @ tensors[j]
    result = tensors[0]
    if given[0] == 1:
        result = result.squeeze(0)
    if given[1] == 1:
        result = result.squeeze(-1)
    return into(out, result)


@functools.lru_cache(maxsize=1024)  # of small matrices it would take most of the time
def _best_steps(sizes):
    """Which matrix, of sizes[i] by sizes[i + 1], is multiplied by which in each step of the
    cheapest order, and replaced by the product: the textbook dynamic programme."""
    count = len(sizes) - 1
    best = {(i, i): (0, ()) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = (
                best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            )
            cost, k = min(zip(costs, range(i, j)))
            best[i, j] = cost, (*best[i, k][1], *best[k + 1, j][1], (i, k + 1))
    return best[0, count - 1][1]


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
