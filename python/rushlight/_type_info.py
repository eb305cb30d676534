"""Limits of the dtypes: `finfo` and `iinfo`."""

from __future__ import annotations

import rushlight
from rushlight._python_types import as_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight._absent_dtypes import _AbsentDtype
    from rushlight.types import _dtype

# bits, bits of the fraction, exponents of the smallest normal and of the bound, decimal digits
_FLOATS = {
    "float16": (16, 10, -14, 16, 3),
    "bfloat16": (16, 7, -126, 128, 2),
    "float32": (32, 23, -126, 128, 6),
    "float64": (64, 52, -1022, 1024, 15),
}
# Bits of the fraction, exponent of the smallest normal, largest number.
_FLOAT8 = {
    "float8_e4m3fn": (3, -6, 448.0),
    "float8_e4m3fnuz": (3, -7, 240.0),
    "float8_e5m2": (2, -14, 57344.0),
    "float8_e5m2fnuz": (3, -15, 57344.0),
    "float8_e8m0fnu": (0, -127, 2.0**127),
}


_QUANTIZED = {
    "qint8": rushlight.int8, "quint8": rushlight.uint8, "qint32": rushlight.int32,
    "quint4x2": rushlight.uint8, "quint2x4": rushlight.uint8,
}  # fmt: skip


def _name(dtype):
    return str(dtype).removeprefix("torch.")


class finfo:
    """Limits of a floating point dtype, or of the parts of a complex one.

    Args:
        type: the dtype; the default dtype if it is left out.

    Example:
        >>> finfo(rushlight.float32).eps
        1.1920928955078125e-07
    """

    bits: int
    dtype: str
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: _AbsentDtype | _dtype | None = None) -> None:
        dtype = rushlight.get_default_dtype() if type is None else as_dtype(type)
        if _name(dtype) in _FLOAT8 and not isinstance(dtype, str):
            self.dtype, self.bits, self.resolution = _name(dtype), 8, 1.0
            fraction, low, self.max = _FLOAT8[self.dtype]
            self.eps, self.min, self.tiny = 2.0**-fraction, -self.max, 2.0**low
            if not type.is_signed:
                self.min = self.tiny
            self.smallest_normal = self.tiny
            return
        if not isinstance(dtype, rushlight.dtype):
            raise TypeError(
                f"finfo(): argument 'type' must be torch.dtype, not {dtype.__class__.__name__}"
            )
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo for integers"
            )
        self.dtype = _name(dtype.to_real())
        self.bits, fraction, low, high, digits = _FLOATS[self.dtype]
        self.eps = 2.0**-fraction
        self.max = (2.0 - self.eps) * 2.0 ** (high - 1)
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**low
        self.resolution = 10.0**-digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        values = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return (
            f"finfo({', '.join(f'{v}={getattr(self, v):g}' for v in values)}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype.

    Args:
        type: the dtype.

    Example:
        >>> iinfo(rushlight.int8).max
        127
    """

    bits: int
    dtype: str
    max: int
    min: int

    def __init__(self, type: _dtype) -> None:
        type = as_dtype(type)
        name = _name(type)
        if name in _QUANTIZED and type is getattr(rushlight, name):
            type = _QUANTIZED[name]
        if not isinstance(type, rushlight.dtype):
            raise TypeError(
                f"iinfo(): argument 'type' must be torch.dtype, not {type.__class__.__name__}"
            )
        if type.is_floating_point or type.is_complex:
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo for floats"
            )
        if type is rushlight.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.dtype = name
        self.bits = 8 * type.itemsize
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.min = -self.max - 1 if type.is_signed else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
