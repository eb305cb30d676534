"""What `rushlight.compile` makes of a module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.nn import Module


class OptimizedModule(Module):
    """A module that was given to `rushlight.compile`: it calls that module, its one child.

    Its state has the child's names behind `_orig_mod.`, as in files of programs that compile. Its
    other attributes are the child's, to be read, set and deleted.

    Args:
        mod: the module.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self.__dict__.pop("training", None)  # it is the module's
        self._modules["_orig_mod"] = mod

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self._modules["_orig_mod"](*args, **kwargs)

    @property
    def training(self) -> bool:
        """The module's."""
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, mode: bool) -> None:
        held = _module_of(self)
        if held is not None:  # not yet, while Module sets up what all modules have
            held.training = mode

    def __getattr__(self, name: str) -> Any:
        held = _module_of(self)
        if held is None:  # a copy that has not got its state yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return held if name == "_orig_mod" else getattr(held, name)

    def __setattr__(self, name: str, value: Any) -> None:
        held = _module_of(self)
        if held is None or name in ("training", "_orig_mod") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(held, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def __dir__(self) -> Iterable[str]:
        return dir(self._modules["_orig_mod"])

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])

    def __bool__(self) -> bool:
        return bool(self._modules["_orig_mod"])


def _module_of(compiled):
    """The module that was compiled; None as long as the object is not set up."""
    return compiled.__dict__.get("_modules", {}).get("_orig_mod")


def is_dynamo_supported() -> bool:
    """Can programs be compiled here? They cannot."""
    return False
