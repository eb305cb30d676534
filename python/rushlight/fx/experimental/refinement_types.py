"""Statements about types of tensors."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Equality"]


class Equality:
    """Two types, or sizes, are the same."""

    lhs: Any
    rhs: Any

    def __init__(self, lhs: object, rhs: object) -> None:
        self.lhs, self.rhs = lhs, rhs

    def __repr__(self) -> str:
        return f"{self.lhs} = {self.rhs}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equality) and (self.lhs, self.rhs) == (other.lhs, other.rhs)

    def __hash__(self) -> int:
        return hash((Equality, str(self)))
