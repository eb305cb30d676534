"""Is a value of a type, or of a container of types? As `torch.jit.isinstance` asks it."""

from __future__ import annotations

import types
import typing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CONTAINERS = {list: "List", dict: "Dict", tuple: "Tuple", typing.Union: "Optional or Union"}


def members(kind: Any) -> list[Any]:
    """The types that a tuple of types, or a Union, stands for."""
    if isinstance(kind, tuple):
        return [one for each in kind for one in members(each)]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return members(typing.get_args(kind))
    if kind is None:
        return [type(None)]
    return [kind]


def is_of(value: Any, kind: Any) -> bool:
    """Is the value of the kind, or of one of a tuple of them, with all that it contains?"""
    return any([_is_of_one(value, one) for one in members(kind)])


def _is_of_one(value, kind):
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    container = origin or {typing.Optional: typing.Union}.get(kind, kind)
    if container in _CONTAINERS and not inner and kind != tuple[()]:
        raise RuntimeError(
            f"jit.isinstance: {_CONTAINERS[container]} without a contained type: say what it has "
            "in it, as List[int] does"
        )
    if kind is typing.Any:
        return True
    if origin is None:
        return isinstance(value, kind)
    if not isinstance(value, origin):
        return False
    if origin is list:
        return all([is_of(one, inner[0]) for one in value])
    if origin is dict:
        return all([is_of(k, inner[0]) and is_of(v, inner[1]) for k, v in value.items()])
    if origin is tuple:
        if inner[-1:] == (Ellipsis,):
            return all([is_of(one, inner[0]) for one in value])
        return len(value) == len(inner) and all([is_of(v, k) for v, k in zip(value, inner)])
    return True
