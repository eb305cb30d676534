"""Functions of elements that are several operations, or one of another name."""

from __future__ import annotations

import math

import rushlight
from rushlight import Tensor
from rushlight._dispatch._composites._shapes import adjoint
from rushlight._dispatch._emit import by_other, emit, native, opaque, to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _conj(x):
    return emit("_conj", x) if x.is_complex() else x


def _conj_physical(x):
    return emit("_conj_physical", x) if x.is_complex() else x


def _part(place):
    def part(x):
        if not x.is_complex():
            return x if place == 0 else NotImplemented
        return emit("select.int", emit("view_as_real", x), -1, place)

    return part


def _isfinite(x):
    if not (x.is_floating_point() or x.is_complex()):
        return emit("ones_like", x, dtype=rushlight.bool)
    finite = emit("ne.Scalar", emit("abs", x), math.inf)
    return emit("mul.Tensor", emit("eq.Tensor", x, x), finite)


def _isreal(x):
    if not x.is_complex():
        return emit("ones_like", x, dtype=rushlight.bool)
    return emit("eq.Scalar", _part(1)(x), 0)


def _isclose(x, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    if x.dtype is not other.dtype or rtol < 0 or atol < 0:
        return NotImplemented
    close = emit("eq.Tensor", x, other)
    if equal_nan and (x.is_floating_point() or x.is_complex()):
        both = emit("bitwise_and.Tensor", emit("isnan", x), emit("isnan", other))
        close = emit("bitwise_or_.Tensor", close, both)
    if rtol == 0 == atol:
        return close
    if not (x.is_floating_point() or x.is_complex()):
        other = emit("_to_copy", other, dtype=rushlight.get_default_dtype())
    allowed = emit("add.Scalar", emit("abs", emit("mul.Scalar", other, rtol)), atol)
    error = emit("abs", emit("sub.Tensor", x, other))
    finite = _isfinite(error)
    near = emit("bitwise_and_.Tensor", finite, emit("le.Tensor", error, allowed))
    return emit("bitwise_or_.Tensor", close, near)


def _float_power(x, exponent):
    complex_ = any(v.is_complex() if isinstance(v, Tensor) else isinstance(v, complex)
                   for v in (x, exponent))  # fmt: skip
    dtype = rushlight.complex128 if complex_ else rushlight.float64
    if not isinstance(x, Tensor):
        return emit("pow.Scalar", x, to(exponent, dtype))
    if not isinstance(exponent, Tensor):
        return emit("pow.Tensor_Scalar", to(x, dtype), exponent)
    exponent = to(exponent, dtype)
    return emit("pow.Tensor_Tensor", to(x, dtype), exponent)


def _diff(x, n=1, dim=-1, prepend=None, append=None):
    if x.dim() == 0 or n < 0:
        return NotImplemented
    if n == 0:
        return emit("copy_", emit("zeros_like", x), x)
    if prepend is not None or append is not None:
        parts = [t for t in (prepend, x, append) if t is not None]
        if any(t.dim() != x.dim() for t in parts):
            return NotImplemented
        x = emit("cat", parts, dim)
    minus = "logical_xor" if x.dtype is rushlight.bool else "sub.Tensor"
    for _ in range(min(n, x.shape[dim])):
        size = x.shape[dim]
        after, before = (emit("slice.Tensor", x, dim, a, b) for a, b in ((1, size), (0, size - 1)))
        x = emit(minus, after, before)
    return x


def _halves(y, dim):
    """Each element with the one that follows it."""
    size = y.shape[dim]
    left = emit("slice.Tensor", y, dim, 0, size - 1)
    return left, emit("slice.Tensor", y, dim, 1, size)


def _steps(x, y, dim):
    """How far apart the points are, for each pair that follows another; None if they do not fit."""
    if x.dim() == 1:
        x = emit("view", x, [-1 if d == dim % y.dim() else 1 for d in range(y.dim())])
    elif x.dim() != y.dim():
        return None
    before, after = _halves(x, dim)
    return emit("sub.Tensor", after, before)


def _trapezoid(y, x=None, *, dx=1, dim=-1):
    if y.dim() == 0 or y.shape[dim] == 0 or isinstance(dx, Tensor):
        return NotImplemented
    if x is None:
        ends = emit("add.Tensor", emit("select.int", y, dim, 0), emit("select.int", y, dim, -1))
        ends = emit("mul.Scalar", ends, 0.5)
        total = emit("sub.Tensor", emit("sum.dim_IntList", y, [dim]), ends)
        return emit("mul.Scalar", total, dx)
    step = _steps(x, y, dim)
    if step is None:
        return NotImplemented
    area = emit("mul.Tensor", emit("add.Tensor", *_halves(y, dim)), step)
    return emit("div.Scalar", emit("sum.dim_IntList", area, [dim]), 2.0)


def _cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
    if y.dim() == 0 or y.shape[dim] == 0 or isinstance(dx, Tensor):
        return NotImplemented
    if x is None:
        sums = emit("mul.Scalar", emit("add.Tensor", *_halves(y, dim)), dx / 2.0)
        return emit("cumsum", sums, dim)
    step = _steps(x, y, dim)
    if step is None:
        return NotImplemented
    area = emit("mul.Tensor", emit("add.Tensor", *_halves(y, dim)), step)
    return emit("div.Scalar", emit("cumsum", area, dim), 2.0)


def _ndtr(x):
    if not x.is_floating_point():
        return NotImplemented
    half = emit("erf", emit("mul.Scalar", x, math.sqrt(0.5)))
    return emit("mul.Scalar", emit("add.Scalar", half, 1.0), 0.5)


def _unravel_index(indices, shape):
    if isinstance(shape, Tensor):
        return NotImplemented
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    below = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    wide = emit("unsqueeze", indices, -1)
    divisors, sizes = (native(rushlight.tensor, (v,), {}) for v in (below, list(shape)))
    places = emit("floor_divide", wide, emit("lift_fresh", divisors))
    places = emit("remainder.Tensor", places, emit("lift_fresh", sizes))
    return emit("unbind.int", places, -1)


WRITTEN: dict[str, Callable[..., Any]] = {
    "positive": lambda x: x, "__pos__": lambda x: x, "conj": _conj,
    "conj_physical": _conj_physical, "real": _part(0), "imag": _part(1),
    "isfinite": _isfinite, "isreal": _isreal, "isclose": _isclose,
    "float_power": _float_power, "diff": _diff, "ndtr": _ndtr,
    "trapezoid": _trapezoid, "cumulative_trapezoid": _cumulative_trapezoid,
    "square": lambda x: emit("pow.Tensor_Scalar", x, 2),
    "square_": lambda x: emit("pow_.Scalar", x, 2),
    "relu6": lambda x, inplace=False: emit("hardtanh_" if inplace else "hardtanh", x, 0, 6),
    "selu": lambda x: emit("elu", x, 1.6732632423543772, 1.0507009873554805),
    "selu_": lambda x: emit("elu_", x, 1.6732632423543772, 1.0507009873554805),
    "logsigmoid": lambda x: emit("log_sigmoid_forward", x)[0],
    "log_sigmoid": lambda x: emit("log_sigmoid_forward", x)[0],
    "unravel_index": _unravel_index, "bitwise_not": opaque("bitwise_not"),
    "rsub": by_other("rsub"),
    "msort": lambda x: emit("sort", x, 0)[0], "H": adjoint,
    "argsort": lambda x, dim=-1, descending=False, stable=None: (
        emit("sort", x, dim, descending)[1] if stable is None
        else emit("sort.stable", x, stable=stable, dim=dim, descending=descending)[1]
    ),
}  # fmt: skip
