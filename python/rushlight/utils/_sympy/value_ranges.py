"""The values that a size of a program may have."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ValueRanges"]


class ValueRanges(NamedTuple):
    """Which sizes a symbol of a program stands for; `upper` is `int_oo` without a bound."""

    lower: int
    upper: float

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {self.upper}]"
