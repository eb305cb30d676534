"""`make_tensor`: random tensors of any dtype."""

from __future__ import annotations

import math

import rushlight
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor
    from rushlight.types import Device, _dtype, _memory_format

_INTEGRAL_DEFAULTS = {rushlight.bool: (0, 2), rushlight.uint8: (0, 10)}
_SIGNED_DEFAULT = (-9, 10)
_REAL_DEFAULT = (-9, 9)


def make_tensor(
    *shape: int | Sequence[int],
    dtype: _dtype,
    device: Device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """Return a tensor with values drawn uniformly from [low, high).

    Args:
        shape: sizes, as numbers or as one sequence.
        dtype: of the result; real and imaginary parts of complex numbers are drawn separately.
        device: of the result.
        low: lower end: by default 0 for bool and uint8, -9 otherwise.
        high: upper end: by default 2 for bool, 9 for floating and complex, 10 for integers.
        requires_grad: of the result, which must be floating or complex then.
        noncontiguous: make the result non-contiguous, if it has two or more elements.
        exclude_zero: replace zeros by 1, or by the smallest normal number.
        memory_format: of the result, which cannot be `noncontiguous` then.
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = shape[0]
    shape = tuple(shape)
    is_real = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not is_real:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got"
            f" dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got"
            f" noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    low, high = _interval(low, high, dtype, is_real)
    spread = noncontiguous and math.prod(shape) > 1
    drawn = (*shape[:-1], 2 * shape[-1]) if spread else shape
    if is_real:
        result = _uniform(drawn, dtype, device, low, high)
    else:
        result = rushlight.randint(low, high, drawn, device=device, dtype=dtype)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = _smallest(dtype, is_real)
    return result.requires_grad_() if requires_grad else result


def _limits(dtype, is_real):
    if dtype is rushlight.bool:
        return 0, 2
    if is_real:
        return rushlight.finfo(dtype).min, rushlight.finfo(dtype).max
    # The upper end is not drawn, so it may be one past the largest value, if int64 can hold that.
    info = rushlight.iinfo(dtype)
    return info.min, info.max + (dtype is not rushlight.int64)


def _interval(low, high, dtype, is_real):
    default = _INTEGRAL_DEFAULTS.get(dtype, _REAL_DEFAULT if is_real else _SIGNED_DEFAULT)
    low = default[0] if low is None else low
    high = default[1] if high is None else high
    if any(isinstance(end, float) and math.isnan(end) for end in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low > high or (low == high and not is_real):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if low == high:
        _warn_program(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated: call `torch.full`",
            FutureWarning,
        )
    lowest, highest = _limits(dtype, is_real)
    if high < lowest or low >= highest:
        raise ValueError(
            f"The interval from low={low} to high={high} lies outside the values of {dtype}"
        )
    low, high = max(low, lowest), min(high, highest)
    return (low, high) if is_real else (math.ceil(low), math.ceil(high))


def _uniform(shape, dtype, device, low, high):
    result = rushlight.empty(shape, device=device, dtype=dtype)
    reals = rushlight.view_as_real(result) if dtype.is_complex else result
    if high - low >= rushlight.finfo(reals.dtype).max:
        reals.uniform_(low / 2, high / 2).mul_(2)  # the length itself would be infinite
    else:
        reals.uniform_(low, high)
    return result


def _smallest(dtype, is_real):
    if not is_real:
        return 1
    tiny = rushlight.finfo(dtype).tiny
    return complex(tiny, tiny) if dtype.is_complex else tiny
