"""Dispatch keys: names for the reasons why an operation may run in another way.

There is no dispatcher that works by keys here. They say where a kernel belongs, and what a context
leaves out.
"""

from __future__ import annotations

import enum

import rushlight
from rushlight._set_module import set_module
from rushlight.library._operator import BelowAutograd as _AutoDispatchBelowAutograd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

DispatchKey = enum.Enum(
    "DispatchKey",
    "Undefined CPU CUDA XPU MPS Meta BackendSelect Python Functionalize ADInplaceOrView "
    "AutogradOther AutogradCPU AutogradCUDA AutogradMeta Autograd AutocastCPU AutocastCUDA "
    "AutocastXPU CompositeExplicitAutograd CompositeImplicitAutograd",
)


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, *keys: Any) -> None:
        self._keys = frozenset(keys)

    def __or__(self, other: Tensor) -> Any:
        return DispatchKeySet(*self._keys, *other._keys)

    def __and__(self, other: Tensor) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys & other._keys))

    def __sub__(self, other: Tensor) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys - other._keys))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    has = __contains__

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self._keys))})"


class _ExcludeDispatchKeyGuard:
    """A context without what the keys stand for: autocast, or recording."""

    def __init__(self, keys: DispatchKeySet) -> None:
        self._contexts = []
        if DispatchKey.AutocastCPU in keys:
            self._contexts.append(rushlight.autocast("cpu", enabled=False))
        if DispatchKey.AutogradCPU in keys or DispatchKey.Autograd in keys:
            self._contexts.append(_AutoDispatchBelowAutograd())

    def __enter__(self) -> None:
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *exception: object) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*exception)


__all__ = [
    "DispatchKey", "DispatchKeySet", "_AutoDispatchBelowAutograd", "_ExcludeDispatchKeyGuard",
]  # fmt: skip

set_module("rushlight", DispatchKey, DispatchKeySet)
