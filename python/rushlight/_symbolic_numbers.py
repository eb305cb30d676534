"""Checks with messages, and arithmetic that torch also has for numbers that are not known yet:
here all numbers are known.
"""

from __future__ import annotations

import math

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _text(message: Any) -> Any:
    if message is None:
        return "the condition is False"
    if not callable(message):
        raise TypeError("message must be a callable")
    return str(message())


def _check_with(error_type: Any, cond: Any, message: Any = None) -> Any:
    """Raise `error_type`, with the text that `message()` returns, unless `cond`."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(_text(message))


def _check(cond: Any, message: Any = None) -> Any:
    """Raise RuntimeError unless `cond`."""
    _check_with(RuntimeError, cond, message)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> Any:
    """Raise RuntimeError unless `i` can be a size, and is at most `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_index(cond: Any, message: Any = None) -> Any:
    """Raise IndexError unless `cond`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Any = None) -> Any:
    """Raise ValueError unless `cond`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Any = None) -> Any:
    """Raise TypeError unless `cond`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Any = None) -> Any:
    """Raise NotImplementedError unless `cond`."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: Any, cond: Any, message: Any = None) -> Any:
    """Raise `error_type` unless all elements of the tensor `cond` are true."""
    if not isinstance(cond, rushlight.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not rushlight.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Any = None) -> Any:
    """Raise RuntimeError unless all elements of the tensor `cond` are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def sym_int(a: Any) -> Any:
    """Return the number without its fraction."""
    return math.trunc(a)


def sym_float(a: Any) -> Any:
    """Return the number as a float."""
    return float(a)


def sym_not(a: Any) -> Any:
    """Return the contrary of a truth value."""
    return not a


def _promoted(a: Any, b: Any, chosen: Any) -> Any:
    return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger number; a float if one of them is."""
    return _promoted(a, b, max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller number; a float if one of them is."""
    return _promoted(a, b, min(a, b))


def sym_sum(args: Any) -> Any:
    """Return the sum of a sequence of numbers."""
    return sum(args)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return t if b holds, else f."""
    if type(t) is not type(f):
        raise TypeError(f"sym_ite: {type(t).__name__} and {type(f).__name__} are two types")
    return t if b else f


def sym_constrain_range(size: Any, *, min: Any = None, max: Any = None) -> None:
    """Raise RuntimeError unless min <= size <= max; a bound that is None bounds nothing."""
    if min is not None and max is not None and max < min:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={min} max={max}")
    if (min is not None and size < min) or (max is not None and size > max):
        least, most = (-(2**63) if min is None else min), (2**63 - 1 if max is None else max)
        raise RuntimeError(f"Invalid value range for {size} between [{least}, {most}].")


def sym_constrain_range_for_size(size: Any, *, min: Any = None, max: Any = None) -> None:
    """Raise RuntimeError unless `size` can be a size between the bounds; `max` is more than 2."""
    if max is not None and max <= 2:
        raise RuntimeError(
            f"Max value to constrain_range_for_size must be greater than 2. got: {max}"
        )
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def _assert_scalar(self: Any, assert_msg: Any) -> None:
    """Raise RuntimeError with this message where a number is 0 or False."""
    if not self:
        raise RuntimeError(assert_msg)


def sym_fresh_size(expr: Any) -> Any:
    """Return the number."""
    return expr


def _sym_function(name: Any) -> Any:
    function = getattr(math, name)

    def compute(a):
        return function(a)

    compute.__name__ = compute.__qualname__ = f"_sym_{name}"
    compute.__doc__ = f"Return math.{name} of a number."
    return compute


for _name in ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2"):
    globals()[f"_sym_{_name}"] = _sym_function(_name)
sym_sqrt: Any = globals()["_sym_sqrt"]


rushlight.overrides._make_overridable(
    globals(), "rushlight", only=[name for name in globals() if name.startswith("sym_")]
)
