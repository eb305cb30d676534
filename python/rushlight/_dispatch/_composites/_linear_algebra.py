"""Factorizations and solvers, products of several matrices."""

from __future__ import annotations

import functools
import math
import operator

import rushlight
from rushlight import Tensor
from rushlight._dispatch._composites._shapes import adjoint
from rushlight._dispatch._emit import emit, flatten, matmul, native, opaque, reshape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _is_batch_of_squares(x):
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2] and (x.is_floating_point() or x.is_complex())


def _checked(name, shown, square=True):
    """A factorization that raises where one of its matrices has none."""

    def factorize(A, *args, **kwargs):
        if A.dim() < 2 or (square and not _is_batch_of_squares(A)):
            return NotImplemented
        *results, info = emit(name, A, *args, **kwargs)
        emit("_linalg_check_errors", info, shown, is_matrix=A.dim() == 2)
        return results[0] if len(results) == 1 else _named(shown, results)

    return factorize


@functools.cache
def _class_of(name):
    """The class of a function's result, which it makes when it first runs."""
    function = operator.attrgetter(name)(rushlight)
    one = rushlight.ones(1, 1)
    return type(native(function, (one, one) if name.endswith("solve_ex") else (one,), {}))


def _named(name, results):
    """Several results as the library's own type, which has their names."""
    return _class_of(name)(tuple(results))


def _solve(A, B, *, left=True):
    if not _is_batch_of_squares(A):
        return NotImplemented
    options = {} if left else {"left": False}
    result, _, _, info = emit("_linalg_solve_ex", A, B, **options)
    emit("_linalg_check_errors", info, "linalg.solve", is_matrix=A.dim() == 2)
    return result


def _solve_ex(A, B, *, left=True, check_errors=False):
    options = {} if left else {"left": False}
    options |= {"check_errors": True} if check_errors else {}
    result, _, _, info = emit("_linalg_solve_ex", A, B, **options)
    return _named("linalg.solve_ex", (result, info))


def _eigh(A, UPLO="L"):
    return _named("linalg.eigh", emit("_linalg_eigh", A, UPLO))


def _svd(A, full_matrices=True, *, driver=None):
    options = {} if driver is None else {"driver": driver}
    return _named("linalg.svd", emit("_linalg_svd", A, full_matrices, **options))


def _values(A, driver=None):
    """The singular values alone."""
    options = {} if driver is None else {"driver": driver}
    return emit("_linalg_svd", A, False, False, **options)[1]


def _old_svd(x, some=True, compute_uv=True):
    if not compute_uv:
        return NotImplemented
    u, s, vh = emit("_linalg_svd", x, not some)
    return _named("svd", (u, s, adjoint(vh)))


def _logdet(x):
    if x.is_complex():
        return NotImplemented
    sign, logarithm, *_ = emit("_linalg_slogdet", x)
    negative = emit("eq.Scalar", sign, -1.0)
    return emit("where.self", negative, emit("scalar_tensor", math.nan, dtype=x.dtype), logarithm)


def _matrix_power(A, n):
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        return NotImplemented
    if n < 0:
        inverse = _checked("linalg_inv_ex", "linalg.inv")(A)
        return NotImplemented if inverse is NotImplemented else _matrix_power(inverse, -n)
    if n == 0:
        copy = emit("clone", A)
        return emit("copy_", copy, emit("eye", A.shape[-2], dtype=A.dtype))
    if n == 1:
        return emit("clone", A)
    if n == 3:
        return matmul(matmul(A, A), A)
    power, result = None, None
    while n:
        power = A if power is None else matmul(power, power)
        n, bit = divmod(n, 2)
        if bit:
            result = power if result is None else matmul(result, power)
    return result


def _multi_dot(tensors):
    if len(tensors) < 2 or not all(t.dim() == 2 for t in tensors[1:-1]):
        return NotImplemented
    if not all(t.dim() in (1, 2) for t in tensors) or len(tensors) > 3:
        return NotImplemented
    first, *middle, last = tensors
    shape = [*first.shape[:-1], *last.shape[1:]]
    first = emit("unsqueeze", first, 0) if first.dim() == 1 else first
    last = emit("unsqueeze", last, -1) if last.dim() == 1 else last
    if not middle:
        return emit("view", emit("mm", first, last), shape)
    (b,) = middle
    rows, columns = first.shape[0], last.shape[-1]
    left = rows * b.shape[1] * (b.shape[0] + columns)
    right = columns * b.shape[0] * (b.shape[1] + rows)
    if left <= right:
        product = emit("mm", emit("mm", first, b), last)
    else:
        product = emit("mm", first, emit("mm", b, last))
    return emit("view", product, shape)


def _epsilon(x):
    return rushlight.finfo(x.dtype).eps * max(x.shape[-2:])


def _pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    if A.dim() < 2 or isinstance(rcond, bool):
        return NotImplemented
    if A.is_complex():
        return NotImplemented
    if rcond is not None:
        atol, rtol = 0.0, rcond
    given = {"atol": atol, "rtol": rtol}
    if any(isinstance(v, (int, float)) for v in given.values()):
        if rtol is None:
            rtol = 0.0 if atol else _epsilon(A)
        for name, v in (("atol", atol), ("rtol", rtol)):
            if not isinstance(v, Tensor):
                given[name] = emit("full", [], float(v or 0), dtype=A.dtype)
    given = {name: v for name, v in given.items() if v is not None}
    given |= {"hermitian": True} if hermitian else {}
    return emit("linalg_pinv.atol_rtol_tensor", A, **given)


def _matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    if tol is not None or A.dim() < 2 or A.is_complex():
        return NotImplemented
    if any(isinstance(v, Tensor) for v in (atol, rtol)):
        return NotImplemented
    result = emit("empty.memory_format", list(A.shape[:-2]), dtype=rushlight.int64)
    if rtol is None:
        rtol = 0.0 if atol else _epsilon(A)
    options = {"dtype": A.dtype}
    atol = (
        emit("zeros", [], **options) if atol is None else emit("full", [], float(atol), **options)
    )
    rtol = emit("full", [], float(rtol), **options)
    if not A.numel():
        return emit("fill_.Scalar", result, 0)
    if hermitian:
        values = emit("abs", emit("_linalg_eigh", A, "L", False)[0])
        largest = emit("amax", values, [-1], True)
    else:
        values = _values(A)
        largest = emit("slice.Tensor", values, -1, 0, 1)
    least = emit("mul.Tensor", emit("unsqueeze", rtol, -1), largest)
    least = emit("maximum", emit("unsqueeze", atol, -1), least)
    return emit("sum.dim_IntList", emit("gt.Tensor", values, least), [-1])


def _lstsq(A, B, rcond=None, *, driver=None):
    options = {} if driver is None else {"driver": driver}
    given = () if rcond is None else (rcond,)
    found = emit("linalg_lstsq", A, B, *given, **options)
    return rushlight.return_types.linalg_lstsq(*found)


def _contracted(a, b, dims_a, dims_b):
    """The sum of products over dims that the two have in common."""
    dims_a, dims_b = ([d % max(t.dim(), 1) for d in dims] for t, dims in ((a, dims_a), (b, dims_b)))
    common = 1
    for i, j in zip(dims_a, dims_b):
        if b.shape[j] == 1:
            a = emit("sum.dim_IntList", a, [i], True)
        elif a.shape[i] == 1:
            b = emit("sum.dim_IntList", b, [j], True)
        else:
            common *= a.shape[i]
    free_a = [d for d in range(a.dim()) if d not in dims_a]
    free_b = [d for d in range(b.dim()) if d not in dims_b]
    shape = [a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]
    rows, columns = math.prod(shape[: len(free_a)]), math.prod(shape[len(free_a) :])
    a = emit("permute", a, [*free_a, *dims_a])
    if rows * columns != 1:
        a = reshape(a, (rows, common))
        b = reshape(emit("permute", b, [*dims_b, *free_b]), (common, columns))
        return reshape(emit("mm", a, b), tuple(shape))
    b = emit("permute", b, [*dims_b, *free_b])
    if a.is_contiguous() and b.is_contiguous():
        return emit("view", emit("dot", flatten(a), flatten(b)), shape)
    product = emit("mul.Tensor", emit("squeeze", a), emit("squeeze", b))
    return emit("view", emit("sum", product), shape)


def _tensordot(a, b, dims=2, out=None):
    if out is not None or isinstance(dims, Tensor):
        return NotImplemented
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.dim(), b.dim()):
            return NotImplemented
        dims = (list(range(-dims, 0)), list(range(dims)))
    dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(dims_a) != len(dims_b):
        return NotImplemented
    if any(1 not in (n := {a.shape[i], b.shape[j]}) and len(n) > 1 for i, j in zip(dims_a, dims_b)):
        return NotImplemented
    return _contracted(a, b, dims_a, dims_b)


def _inner(x, other):
    if x.dim() == 0 or other.dim() == 0:
        return emit("mul.Tensor", x, other)
    if x.shape[-1] != other.shape[-1]:
        return NotImplemented
    return _contracted(x, other, [-1], [-1])


WRITTEN: dict[str, Callable[..., Any]] = {
    "linalg_cholesky": _checked("linalg_cholesky_ex", "linalg.cholesky"),
    "linalg_inv": _checked("linalg_inv_ex", "linalg.inv"),
    "inverse": _checked("linalg_inv_ex", "linalg.inv"),
    "linalg_lu_factor": _checked("linalg_lu_factor_ex", "linalg.lu_factor", False),
    "linalg_ldl_factor": _checked("linalg_ldl_factor_ex", "linalg.ldl_factor"),
    "linalg_solve": _solve, "linalg_solve_ex": _solve_ex,
    "linalg_det": lambda A: emit("_linalg_det", A)[0], "det": lambda A: emit("_linalg_det", A)[0],
    "linalg_slogdet": lambda A: _named("linalg.slogdet", emit("_linalg_slogdet", A)[:2]),
    "slogdet": lambda A: _named("slogdet", emit("_linalg_slogdet", A)[:2]), "logdet": _logdet,
    "linalg_eigvals": lambda A: emit("linalg_eig", A)[0], "linalg_eigh": _eigh,
    "linalg_eigvalsh": lambda A, UPLO="L": emit("_linalg_eigh", A, UPLO, False)[0],
    "linalg_svd": _svd, "linalg_svdvals": _values, "svd": _old_svd,
    "linalg_matrix_power": _matrix_power, "matrix_power": _matrix_power,
    "linalg_multi_dot": _multi_dot, "chain_matmul": opaque("chain_matmul"),
    "linalg.pinv": _pinv, "pinverse": lambda x, rcond=1e-15: _pinv(x, rcond),
    "linalg.lstsq": _lstsq, "inner": _inner,
    "tensordot": _tensordot, "linalg.matrix_rank": _matrix_rank,
    "lu_solve": lambda b, LU, pivots: emit("linalg_lu_solve", LU, pivots, b),
    "cross": lambda x, other, dim=None: (
        emit("linalg_cross", x, other, **({} if dim is None else {"dim": dim}))
    ),
}  # fmt: skip
