"""Enumerations that torch has in C++."""

from __future__ import annotations

from enum import Enum, IntEnum


class NumberedEnum(Enum):
    """Names, of which `int` gives torch's numbers."""

    def __int__(self) -> int:
        return self.value


class NativeEnum(IntEnum):
    """Numbers with names, which their texts are: `str` of a member has it, where that of Python's
    `IntEnum` is the number.
    """

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)
