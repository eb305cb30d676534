"""Modules that hold other modules or parameters: in a row, a list or a dict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice
from typing import Any

import rushlight
from rushlight import Tensor, _call_in_turn
from rushlight.nn.modules._fused import FUSED
from rushlight.nn.modules.module import Module, _addindent
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]


class Container(Module):
    """Holds the modules given by keyword; kept for old programs."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _wrap_index(index, length):
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range for {length} entries")
    return index % length


class _ModuleSequence(Module):
    """What Sequential and ModuleList share: children named "0", "1", ... in order."""

    def _get_abs_string_index(self, index):
        """The name of the child at `index`; a Sequential's children may have other names."""
        return next(islice(self._modules, _wrap_index(index, len(self)), None))

    def _renumber(self, modules):
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._get_abs_string_index(index), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def pop(self, key: int | slice) -> Any:
        """Remove and return the entry at an index."""
        module = self[key]
        del self[key]
        return module

    def append(self, module: Module) -> Self:
        """Add one module at the end."""
        self.add_module(str(len(self)), module)
        return self


class Sequential(_ModuleSequence):
    """Calls its modules one after the other, each with the output of the one before.

    Args: modules, or one OrderedDict of named modules.

    Example::

        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Tensor) -> Any:
        return _call_in_turn(FUSED, self._modules.values(), input)

    def __getitem__(self, idx: slice | int) -> Sequential | Module:
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._get_abs_string_index(idx)]

    def __delitem__(self, idx: slice | int) -> None:
        if isinstance(idx, slice):
            for key in list(self._modules)[idx]:
                delattr(self, key)
        else:
            delattr(self, self._get_abs_string_index(idx))
        self._renumber(self._modules.values())

    def _require_sequential(self, other, what):
        if not isinstance(other, Sequential):
            raise ValueError(f"{what}: expected an nn.Sequential but got {type(other).__name__}")

    def __add__(self, other: Tensor) -> Sequential:
        self._require_sequential(other, "Sequential + other")
        joined = Sequential()
        for module in chain(self, other):
            joined.append(module)
        return joined

    def __iadd__(self, other: Tensor) -> Self:
        self._require_sequential(other, "Sequential += other")
        return self.extend(list(other))

    def _require_count(self, count):
        if not isinstance(count, int):
            raise TypeError(f"Sequential * n: expected an int but got {type(count).__name__}")
        if count <= 0:
            raise ValueError(f"Sequential * n: expected a positive n but got {count}")

    def __mul__(self, other: int) -> Sequential:
        self._require_count(other)
        repeated = Sequential()
        for module in list(self) * other:
            repeated.append(module)
        return repeated

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        self._require_count(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"insert: expected a Module but got {type(module).__name__}")
        n = len(self._modules)
        if not -n <= index <= n:
            raise IndexError(f"insert: index {index} is out of range for {n} modules")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_ModuleSequence):
    """A list of modules, all registered; calling them is up to the model that holds it."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, index):
        return str(_wrap_index(index, len(self)))

    def __getitem__(self, idx: int | slice) -> Module | ModuleList:
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __delitem__(self, idx: int | slice) -> None:
        for i in range(len(self))[idx] if isinstance(idx, slice) else [_wrap_index(idx, len(self))]:
            delattr(self, str(i))
        self._renumber(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        joined = ModuleList()
        for module in chain(self, other):
            joined.append(module)
        return joined

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before `index`."""
        modules = list(self)
        modules.insert(index, module)
        if not isinstance(module, Module):
            raise TypeError(f"insert: {type(module).__name__} is not a Module subclass")
        self._renumber(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"extend: expected an iterable of modules but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Runs of equal modules are printed once, with their count."""
        if not len(self):
            return f"{self._get_name()}()"
        runs = []
        for i, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = []
        for first, last, text in runs:
            label = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(_addindent(f"{label}: {times}{text}", 2))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules, all registered, in the order they were added."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module of a key."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add modules from a mapping or from (name, module) pairs."""
        for key, module in _pairs(modules, "ModuleDict.update"):
            self[key] = module


def _pairs(entries, name):
    """(key, value) pairs of a mapping or an iterable of pairs."""
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{name}: expected a mapping or pairs of key and value but got {type(entries).__name__}"
        )
    pairs = list(entries)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name}: element {i} should be a pair but is a {type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{name}: element {i} has length {len(pair)}; 2 is required")
    return pairs


def _listing(entries, elements):
    """How ParameterList and ParameterDict print their entries, `elements(value)` naming a type."""
    lines = []
    for key, value in entries:
        text = f"Object of type: {type(value).__name__}"
        if isinstance(value, Tensor):
            kind = "Parameter" if isinstance(value, Parameter) else type(value).__name__
            size = "x".join(str(n) for n in value.size())
            place = f" (GPU {value.get_device()})" if value.is_cuda else ""
            text = f"{kind} containing: [{elements(value)} of size {size}{place}]"
        lines.append(f"  ({key}): {text}")
    return "\n".join(lines)


class ParameterList(Module):
    """A list of parameters, all registered; tensors become parameters, other values are kept."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__([self[i] for i in range(*idx.indices(len(self)))])
        return getattr(self, str(_wrap_index(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, str(_wrap_index(idx, len(self))), param)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Add one value at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(
                f"extend: expected an iterable of parameters but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return _listing(enumerate(self), lambda value: value.dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList: cannot be called")


class ParameterDict(Module):
    """A dict of parameters, all registered; tensors become parameters, other values are kept."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key):
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict key: expected a string but got {type(key).__name__}")
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        attribute = self._key_to_attr(key)
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, attribute, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A ParameterDict with the same entries."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, which is set to `default` first if it is not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of a key."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (key, value)."""
        key, _ = self._keys.popitem()
        value = self[key]
        delattr(self, self._key_to_attr(key))
        return key, value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A ParameterDict with `default` for each of `keys`."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Mapping[str, Any] | ParameterDict) -> None:
        """Add entries from a mapping or from (name, value) pairs; those of a mapping that is
        neither an OrderedDict nor a ParameterDict come in the order of the names.
        """
        pairs = _pairs(parameters, "ParameterDict.update")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return _listing(self.items(), rushlight.typename)

    def __call__(self, input: Tensor) -> Any:
        raise RuntimeError("ParameterDict: cannot be called")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        joined = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self
