"""How the elements of carried dtypes lie in memory: bits to numbers and back."""

from __future__ import annotations

import math
from array import array
from functools import lru_cache

import rushlight
from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# bits of the exponent, of the fraction, what is subtracted from the exponent
_FLOAT8 = {
    "float8_e4m3fn": (4, 3, 7),
    "float8_e4m3fnuz": (4, 3, 8),
    "float8_e5m2": (5, 2, 15),
    "float8_e5m2fnuz": (5, 2, 16),
    "float8_e8m0fnu": (8, 0, 127),
}
_CARRIERS = {1: rushlight.uint8, 2: rushlight.int16, 4: rushlight.int32, 8: rushlight.int64}


def carrier_of(dtype: Any) -> Any:
    """Return the dtype of the tensor that holds the bits."""
    return _CARRIERS[dtype.itemsize]


def is_unsigned(dtype: Any) -> bool:
    """Is it uint16, uint32 or uint64?"""
    return not (dtype.is_floating_point or dtype.is_complex)


def numbers_of(bits: Tensor, dtype: Any) -> Tensor:
    """Return the elements in a dtype that kernels know: int64, float64 for uint64, float32 or
    complex64.
    """
    if dtype.is_complex:
        parts = bits.unsqueeze(-1).view(rushlight.float16).float()
        return rushlight.view_as_complex(parts)
    if dtype.is_floating_point:
        return _table(str(dtype)).take(bits.long())  # a copy, also of one
    if dtype.itemsize == 8:
        return bits.double() + (bits < 0) * 2.0**64
    return bits.long() & (2 ** (8 * dtype.itemsize) - 1)


def bits_of(numbers: Tensor, dtype: Any) -> Tensor:
    """Return the bits of numbers, rounded to the nearest for floats, modulo 2**n for integers."""
    if dtype.is_complex:
        parts = rushlight.view_as_real(numbers.to(rushlight.complex64).resolve_conj())
        return parts.to(rushlight.float16).view(rushlight.int32).squeeze(-1).clone()
    numbers = numbers.real if numbers.is_complex() else numbers
    if dtype.is_floating_point:
        return _rounded(numbers.double(), str(dtype))
    if numbers.is_floating_point() and dtype.itemsize == 8:
        numbers = rushlight.where(numbers >= 2.0**63, numbers.double() - 2.0**64, numbers.double())
    return numbers.long().to(carrier_of(dtype))


def _value(code, name):
    """The number that a byte stands for."""
    exponent_bits, fraction_bits, bias = _FLOAT8[name]
    if name == "float8_e8m0fnu":
        return math.nan if code == 255 else 2.0 ** (code - bias)
    sign, code = (-1.0 if code & 128 else 1.0), code & 127
    exponent, fraction = code >> fraction_bits, code & (2**fraction_bits - 1)
    if name.endswith("uz"):
        if sign < 0 and code == 0:
            return math.nan
    elif name == "float8_e4m3fn":
        if code == 127:
            return math.nan
    elif exponent == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias)


def _table(name):
    return rushlight.frombuffer(_numbers(name.removeprefix("torch.")), dtype=rushlight.float32)


def _middles(name):
    return rushlight.frombuffer(_between(name.removeprefix("torch.")), dtype=rushlight.float64)


@lru_cache(None)
def _numbers(name):
    return array("f", [_value(code, name) for code in range(256)])


@lru_cache(None)
def _between(name):
    """Between each number that is not negative and the next, which need not be there."""
    codes = range(255) if name == "float8_e8m0fnu" else range(128)
    numbers = [v for v in (_value(code, name) for code in codes) if math.isfinite(v)]
    after = numbers[-1] * 2 if name == "float8_e8m0fnu" else 2 * numbers[-1] - numbers[-2]
    middles = [(a + b) / 2 for a, b in zip(numbers, [*numbers[1:], after], strict=True)]
    return array("d", middles)


def _rounded(numbers, name):
    """The nearest number's byte, the even one of two that are as near."""
    short, middles = name.removeprefix("torch."), _middles(name)
    size = numbers.abs()
    code = rushlight.searchsorted(middles, size)
    at = middles.take(code.clamp(max=len(middles) - 1))
    unsigned = short == "float8_e8m0fnu"
    code = code + ((size == at) & ((code % 2 == 1) | unsigned))
    beyond = len(middles)
    nothing = {"float8_e4m3fn": 127, "float8_e5m2": 127, "float8_e8m0fnu": 255}.get(short, 128)
    overflow = {"float8_e4m3fn": 126, "float8_e5m2": 124}.get(short, nothing)  # as torch has it
    code = rushlight.where(code >= beyond, overflow, code)
    code = rushlight.where(numbers.isnan(), nothing, code)
    if not unsigned:
        negative = rushlight.signbit(numbers) & (code < 128)
        if short.endswith("uz"):
            negative = negative & (code > 0)
        code = code + negative * 128
    return code.to(rushlight.uint8)
