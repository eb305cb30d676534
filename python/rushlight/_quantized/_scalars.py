"""Sums and products of a quantized tensor and a number, which change its scale or zero point."""

from __future__ import annotations

import rushlight
from rushlight._quantized._tensor import QuantizedTensor, Quantizer, make, plain, to_integers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _like(integers: Tensor, scale: float, zero_point: int) -> Tensor:

    return make(integers, Quantizer(scale, zero_point))


def add_scalar(input: QuantizedTensor, number: float) -> Tensor:
    """Return input + number, a whole number of steps: the zero point moves by it.

    Where no integer of the dtype would stand for 0, the steps become wider.
    """
    integers, scale, zero_point = plain(input), input.q_scale(), input.q_zero_point()
    limits = rushlight.iinfo(integers.dtype)
    steps = round(float(number) / scale)
    moved = zero_point - steps
    if limits.min <= moved <= limits.max:
        return _like(integers.clone(), scale, moved)
    if moved < limits.min:
        wider, zero = (limits.max - moved) / (limits.max - limits.min) * scale, limits.min
    else:
        wider, zero = (moved - limits.min) / (limits.max - limits.min) * scale, limits.max
    numbers = (integers.to(rushlight.int32) - moved).float() * (scale / wider)
    return _like(to_integers(numbers + zero, integers.dtype, zero), wider, zero)


def mul_scalar(input: QuantizedTensor, number: float) -> Tensor:
    """Return input * number: the scale is multiplied, and negative numbers mirror the integers."""
    integers, scale, zero_point = plain(input), input.q_scale(), input.q_zero_point()
    limits = rushlight.iinfo(integers.dtype)
    number = float(number)
    if number > 0:
        return _like(integers.clone(), scale * number, zero_point)
    if number == 0:
        return _like(rushlight.zeros_like(integers), 1.0, 0)
    mirrored = (limits.max + limits.min) - integers.to(rushlight.int64)
    zero = limits.max - (zero_point - limits.min)
    return _like(mirrored.to(integers.dtype), scale * abs(number), zero)
