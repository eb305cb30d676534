"""Unification of objects by their attributes."""

from __future__ import annotations

from rushlight.fx.experimental.unification.core import _reifiers, _unifiers, reify, unify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["reify_object", "unifiable", "unify_object"]


def _attributes(o):
    if hasattr(o, "__slots__"):
        return {name: getattr(o, name) for name in o.__slots__}
    return vars(o)


def unifiable(cls: type) -> type:
    """Let objects of a class be unified by their attributes; usable as a decorator."""
    _unifiers[cls], _reifiers[cls] = unify_object, reify_object
    return cls


def reify_object(o: Any, s: dict[Any, Any]) -> Any:
    """An object with values for the variables among its attributes; the same if it has none."""
    before = dict(_attributes(o))
    after = reify(before, s)
    if after == before:
        return o
    made = object.__new__(type(o))
    for name, value in after.items():
        setattr(made, name, value)
    return made


def unify_object(u: Any, v: Any, s: dict[Any, Any]) -> dict[Any, Any] | bool:
    """Values with which two objects of one class have the same attributes; see `unify`."""
    if type(u) is not type(v):
        return False
    return unify(dict(_attributes(u)), dict(_attributes(v)), s)
