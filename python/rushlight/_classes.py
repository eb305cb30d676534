"""`torch.classes`: the namespaces of classes that compiled libraries register. None can be here."""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Namespace(types.ModuleType):
    """The classes of one namespace."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.classes{name}")
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"torch.classes.{self.name} has no attribute {name!r}")
        raise RuntimeError(
            f"Tried to instantiate class '{self.name}.{name}', but it does not exist! Classes that "
            "compiled libraries register by torch::class_ are of PyTorch's own libraries"
        )


class _Classes(types.ModuleType):
    """The namespaces, by name."""

    __file__ = "_classes.py"

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(f"torch.classes has no attribute {name!r}")
        namespace = _Namespace(name)
        setattr(self, name, namespace)
        return namespace

    @property
    def loaded_libraries(self) -> set[Any]:
        """Those that `load_library` loaded: none."""
        from rushlight import ops

        return ops.loaded_libraries

    def load_library(self, path: str) -> None:
        """Refused as `ops.load_library` is: such libraries are linked with PyTorch's own."""
        from rushlight import ops

        ops.load_library(path)


classes: types.ModuleType = _Classes("torch.classes")
