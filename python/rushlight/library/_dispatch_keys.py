"""Dispatch keys: names for the reasons why an operation may run in another way.

There is no dispatcher that works by keys here. They say where a kernel belongs, and what a context
leaves out. Names and numbers are torch's, as programs print and keep them.
"""

from __future__ import annotations

import rushlight
from rushlight._enums import NumberedEnum
from rushlight._set_module import set_module
from rushlight.library._operator import BelowAutograd as _AutoDispatchBelowAutograd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_BACKENDS = (
    "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta"
).split()
# Those that have a key for each backend: the number of their first key, and how the keys begin.
_BY_BACKEND = {
    "Dense": (1, 48, ""),
    "Quantized": (5, 65, "Quantized"),
    "Sparse": (8, 82, "Sparse"),
    "SparseCsr": (9, 99, "SparseCsr"),
    "NestedTensor": (10, 116, "NestedTensor"),
    "AutogradFunctionality": (21, 133, "Autograd"),
}
_KEYS = {
    "Undefined": 0, "BackendSelect": 11, "Python": 13, "FuncTorchDynamicLayerBackMode": 14,
    "Functionalize": 15, "Conjugate": 16, "Negative": 17, "ZeroTensor": 18, "ADInplaceOrView": 19,
    "AutogradOther": 20, "AutogradNestedTensor": 22, "AutocastCPU": 24, "AutocastXPU": 27,
    "AutocastIPU": 28, "AutocastHPU": 29, "AutocastMPS": 31, "AutocastCUDA": 32,
    "AutocastPrivateUse1": 33, "FuncTorchBatched": 34, "FuncTorchVmapMode": 36,
    "FuncTorchGradWrapper": 39, "PythonTLSSnapshot": 41, "FuncTorchDynamicLayerFrontMode": 42,
    "PreDispatch": 45, "PythonDispatcher": 46, "Autograd": 150, "CompositeImplicitAutograd": 151,
    "FuncTorchBatchedDecomposition": 152, "CompositeImplicitAutogradNestedTensor": 153,
    "CompositeExplicitAutograd": 154, "CompositeExplicitAutogradNonFunctional": 155,
}  # fmt: skip
for _name, (_number, _start, _prefix) in _BY_BACKEND.items():
    _KEYS[_name] = _number
    _KEYS |= {f"{_prefix}{b}": _start + 1 + i for i, b in enumerate(_BACKENDS)}
    _KEYS[f"StartOf{_name}Backends"], _KEYS[f"EndOf{_name}Backends"] = _start, _start + 16

DispatchKey: Any = NumberedEnum("DispatchKey", _KEYS)

_FIRST_BIT = 15  # before it is a bit for each backend, from it on one for each functionality
_ALL_BACKENDS = (1 << 16) - 1


def _bits(key):
    """The key as a number: a bit for what it is, and one for the backend."""
    number = key.value
    for functionality, start, _ in _BY_BACKEND.values():
        if start <= number <= start + len(_BACKENDS):
            backend = number - start
            return 1 << _FIRST_BIT + functionality | (1 << backend >> 1)
    return 1 << _FIRST_BIT + number if 0 < number < 48 else 0


class DispatchKeySet:
    """A set of dispatch keys: of backends, and of what is done for all of these.

    Example:
        >>> rushlight.DispatchKeySet(rushlight.DispatchKey.CPU).add(rushlight.DispatchKey.CUDA)
        DispatchKeySet(CPU, CUDA)
    """

    def __init__(self, *keys: Any) -> None:
        self._bits = 0
        for key in keys:
            self._bits |= _bits(key)

    @classmethod
    def from_raw_repr(cls, raw: int, /) -> DispatchKeySet:
        """The set that `raw_repr` made the number of."""
        made = cls()
        made._bits = raw
        return made

    def raw_repr(self) -> int:
        """The set as a number."""
        return self._bits

    def add(self, key: Any, /) -> DispatchKeySet:
        """Return the set with a key."""
        return self.from_raw_repr(self._bits | _bits(key))

    def remove(self, key: Any, /) -> DispatchKeySet:
        """Return the set without what a key does; backends stay."""
        return self.from_raw_repr(self._bits & ~(_bits(key) & ~_ALL_BACKENDS))

    def has(self, key: Any, /) -> bool:
        """Is the key in the set?"""
        return _bits(key) & ~self._bits == 0

    def highestPriorityTypeId(self) -> Any:
        """The key of the set that a dispatcher would turn to first."""
        return [DispatchKey.Undefined, *self][-1]

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self.from_raw_repr(self._bits | other._bits)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self.from_raw_repr(self._bits & other._bits)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self.from_raw_repr(self._bits & ~(other._bits & ~_ALL_BACKENDS))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._bits == other._bits

    def __hash__(self) -> int:
        return hash(self._bits)

    def __contains__(self, key: object) -> bool:
        return self.has(key)

    def __iter__(self) -> Iterator[Any]:
        by_backend = {number: start for number, start, _ in _BY_BACKEND.values()}
        for number in range(1, 48):
            if not self._bits >> _FIRST_BIT + number & 1:
                continue
            if number not in by_backend:
                yield DispatchKey(number)
                continue
            for i in range(len(_BACKENDS)):
                if self._bits >> i & 1:
                    yield DispatchKey(by_backend[number] + 1 + i)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


class _ExcludeDispatchKeyGuard:
    """A context without what the keys stand for: autocast, or recording."""

    def __init__(self, keys: DispatchKeySet) -> None:
        self._contexts = []
        if DispatchKey.AutocastCPU in keys:
            self._contexts.append(rushlight.autocast("cpu", enabled=False))
        if DispatchKey.AutogradCPU in keys:
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
