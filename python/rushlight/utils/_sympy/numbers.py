"""The bound of a size that has none."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["IntInfinity", "NegativeIntInfinity", "int_oo"]


class _Infinity(float):
    """An infinity of whole numbers; there is one of each sign."""

    _text: ClassVar[str]

    def __new__(cls) -> _Infinity:
        return float.__new__(cls, cls._text.replace("int_oo", "inf"))

    def __repr__(self) -> str:
        return self._text

    __str__ = __repr__

    def __neg__(self) -> _Infinity:
        return _NEGATIVE if isinstance(self, IntInfinity) else int_oo

    def __reduce__(self) -> tuple:
        return type(self), ()


class IntInfinity(_Infinity):
    """More than any whole number. It compares as `math.inf`, and `int` raises OverflowError."""

    _text = "int_oo"


class NegativeIntInfinity(_Infinity):
    """Less than any whole number: `-int_oo`."""

    _text = "-int_oo"


int_oo: IntInfinity = IntInfinity()
_NEGATIVE = NegativeIntInfinity()
