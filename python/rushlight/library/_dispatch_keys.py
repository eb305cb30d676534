"""Dispatch keys: names for the reasons why an operation may run in another way.

There is no dispatcher that works by keys here. They say where a kernel belongs, and what a context
leaves out.
"""

import enum

import rushlight
from rushlight.library._operator import BelowAutograd as _AutoDispatchBelowAutograd

DispatchKey = enum.Enum(
    "DispatchKey",
    "Undefined CPU CUDA XPU MPS Meta BackendSelect Python Functionalize ADInplaceOrView "
    "AutogradOther AutogradCPU AutogradCUDA AutogradMeta Autograd AutocastCPU AutocastCUDA "
    "AutocastXPU CompositeExplicitAutograd CompositeImplicitAutograd",
)


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, *keys):
        self._keys = frozenset(keys)

    def __or__(self, other):
        return DispatchKeySet(*self._keys, *other._keys)

    def __and__(self, other):
        return DispatchKeySet(*(self._keys & other._keys))

    def __sub__(self, other):
        return DispatchKeySet(*(self._keys - other._keys))

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def __contains__(self, key):
        return key in self._keys

    has = __contains__

    def __repr__(self):
        return f"DispatchKeySet({', '.join(sorted(key.name for key in self._keys))})"


class _ExcludeDispatchKeyGuard:
    """A context without what the keys stand for: autocast, or recording."""

    def __init__(self, keys):
        self._contexts = []
        if DispatchKey.AutocastCPU in keys:
            self._contexts.append(rushlight.autocast("cpu", enabled=False))
        if DispatchKey.AutogradCPU in keys or DispatchKey.Autograd in keys:
            self._contexts.append(_AutoDispatchBelowAutograd())

    def __enter__(self):
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *exception):
        for context in reversed(self._contexts):
            context.__exit__(*exception)


__all__ = [
    "DispatchKey", "DispatchKeySet", "_AutoDispatchBelowAutograd", "_ExcludeDispatchKeyGuard",
]  # fmt: skip
