"""Reading and exchanging a module's tensors and submodules by their dotted paths."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Found = Tensor | None

_ABSENT = object()


def _home(module, name):
    """The dict of the module in which a tensor of this name is, or is to be."""
    for kind in ("_parameters", "_buffers"):
        if name in module.__dict__[kind]:
            return module.__dict__[kind]
    return None


def swap_tensor(
    module: Module, name: str, tensor: Found | object, allow_missing: bool = False
) -> Found | object:
    """Put a tensor in the place of a parameter, buffer or attribute, and return what was there.

    Args:
        module: whose own tensor it is: `name` has no dot.
        tensor: a tensor or None; the object that stands for a missing tensor removes it.
        allow_missing: return the object that stands for a missing tensor, if there is none.
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of nn.Module")
    if tensor is not _ABSENT and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not a Tensor")
    if "." in name or not name:
        raise KeyError(f"tensor name can't be empty or contain a dot, got {name!r}")
    home = _home(module, name)
    place = module.__dict__ if home is None else home
    before = place.get(name, _ABSENT)
    if before is _ABSENT and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
    if before is not _ABSENT and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute {name!r}: {before} is not a Tensor")
    if tensor is _ABSENT:
        place.pop(name, None)
    elif home is not None:
        home[name] = tensor
    else:
        setattr(module, name, tensor)
    return before


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor in the place of a parameter, buffer or attribute."""
    swap_tensor(module, name, tensor, allow_missing=True)


def del_tensor(module: Module, name: str) -> None:
    """Remove a parameter, buffer or attribute."""
    swap_tensor(module, name, _ABSENT)


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of a submodule, and return what was there."""
    before = module._modules.get(name)
    if before is None:
        raise AttributeError(f"{type(module).__name__} has no submodule {name!r}")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Tensors and submodules of a module and of all below it, by path.

    Args:
        module: whose members they are.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def _owner(self, path):
        prefix, _, name = path.rpartition(".")
        return self.get_submodule(prefix), name

    def get_submodule(self, name: str) -> Module:
        """Return the submodule at this path; the module itself for ""."""
        if name not in self.memo:
            self.memo[name] = self.module.get_submodule(name)
        return self.memo[name]

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Exchange the submodule at this path."""
        owner, name = self._owner(path)
        self.memo.clear()
        return swap_submodule(owner, name, value)

    def get_tensor(self, name: str) -> Tensor:
        """Return the tensor at this path."""
        owner, last = self._owner(name)
        found = getattr(owner, last)
        if found is not None and not isinstance(found, Tensor):
            raise TypeError(f"{found} is not a Tensor")
        return found

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Put a tensor at this path."""
        set_tensor(*self._owner(name), value)

    def del_tensor(self, name: str) -> None:
        """Remove the tensor at this path."""
        del_tensor(*self._owner(name))

    def swap_tensor(
        self, name: str, value: Found | object, allow_missing: bool = False
    ) -> Found | object:
        """Exchange the tensor at this path."""
        return swap_tensor(*self._owner(name), value, allow_missing=allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """Return the tensors at these paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Put tensors at these paths."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: Mapping[str, Tensor]) -> None:
        """Put tensors at the paths that are their keys."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Remove the tensors at these paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(
        self, names: Iterable[str], values: Iterable[Found | object], allow_missing: bool = False
    ) -> list[Found | object]:
        """Exchange the tensors at these paths."""
        return [self.swap_tensor(name, value, allow_missing)
                for name, value in zip(names, values, strict=True)]  # fmt: skip

    def swap_tensors_dict(
        self, named_tensors: Mapping[str, Found | object], allow_missing: bool = False
    ) -> tuple[dict[str, Found | object], list[str]]:
        """Exchange the tensors at the paths that are keys; what was there, and what was missing.

        Nothing is exchanged if one of them cannot be.
        """
        before, missing = {}, []
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
                if before[name] is _ABSENT:
                    missing.append(name)
            if missing and not allow_missing:
                raise RuntimeError(f"missing tensors: {missing}")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return (keys of the module that were not given, keys that it does not have)."""
        given, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - given), sorted(given - own)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, parameter)."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, buffer)."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, parameter or buffer)."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield (path, module)."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)
