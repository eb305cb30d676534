"""Types of tensors by their sizes, some of which are not known, and how types relate."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class _DynType:
    """A size, or a type, of which nothing is known."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    def __hash__(self) -> int:
        return hash(self.__name__)

    def __repr__(self) -> str:
        return "Dyn"


Dyn: _DynType = _DynType()


class TensorType:
    """The type of tensors of given sizes, each a number, a variable or `Dyn`.

    Example:
        >>> from rushlight.fx.tensor_type import Dyn, TensorType
        >>> TensorType((2, Dyn))
        TensorType[(2, Dyn)]
    """

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Sequence[Any]:
        """The sizes."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


def is_consistent(t1: Any, t2: Any) -> bool:
    """Could something be of both types? Asked by place, of types and of sizes.

    Example:
        >>> from rushlight.fx.tensor_type import Dyn, TensorType, is_consistent
        >>> is_consistent(Dyn, TensorType((1, 2, 3))), is_consistent(TensorType((1, 2)), int)
        (True, False)
    """
    if t1 == t2 or t1 == Dyn or t2 == Dyn or _is_variable(t1) or _is_variable(t2):
        return True
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        return False
    return len(t1.__args__) == len(t2.__args__) and all(
        map(is_consistent, t1.__args__, t2.__args__)
    )


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Is everything of the first type of the second too? A type is more precise than itself."""
    if t1 == t2 or t2 == Dyn:
        return True
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        return False
    return len(t1.__args__) == len(t2.__args__) and all(
        map(is_more_precise, t1.__args__, t2.__args__)
    )


def _is_variable(t):
    from rushlight.fx.experimental.unification.variable import Var

    return isinstance(t, Var)
