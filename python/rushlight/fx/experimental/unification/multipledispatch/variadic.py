"""Types that stand for any number of arguments at the end."""

from __future__ import annotations

from rushlight.fx.experimental.unification.multipledispatch.utils import typename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Variadic", "VariadicSignatureMeta", "VariadicSignatureType", "isvariadic"]


class VariadicSignatureType(type):
    """The type of `Variadic[int]`."""

    variadic_type: tuple[type, ...]

    def __subclasscheck__(cls, subclass: Any) -> bool:
        kinds = subclass.variadic_type if isvariadic(subclass) else (subclass,)
        return subclass is cls or all(issubclass(kind, cls.variadic_type) for kind in kinds)

    def __eq__(cls, other: object) -> bool:
        return isvariadic(other) and set(cls.variadic_type) == set(other.variadic_type)

    def __hash__(cls) -> int:
        return hash((type(cls), frozenset(cls.variadic_type)))


def isvariadic(obj: Any) -> bool:
    """Does a type stand for any number of arguments?"""
    return isinstance(obj, VariadicSignatureType)


class VariadicSignatureMeta(type):
    """The type of `Variadic`, which makes others by `Variadic[...]`."""

    def __getitem__(cls, variadic_type: Any) -> VariadicSignatureType:
        kinds = variadic_type if isinstance(variadic_type, tuple) else (variadic_type,)
        members = {"variadic_type": kinds, "__slots__": ()}
        return VariadicSignatureType(f"Variadic[{typename(kinds)}]", (), members)


class Variadic(metaclass=VariadicSignatureMeta):
    """`Variadic[int]` is any number of ints, `Variadic[(int, str)]` of ints and texts."""
