"""Enumerations that torch has in C++."""

from __future__ import annotations

from enum import IntEnum


class NativeEnum(IntEnum):
    """Numbers with names, which their texts are: `str` of a member has it, where that of Python's
    `IntEnum` is the number.
    """

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)
