"""Operations by namespace and name, `torch.ops.ns.name(...)`: those that programs register (see
`rushlight.library`), and those of the library in `torch.ops.aten`.
"""

from __future__ import annotations

import functools
import importlib
import os

from rushlight import library as _library
from rushlight.library._operator import namespace as _namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

loaded_libraries: set[Any] = set()
# Compiled libraries, by how their paths end but for a suffix, whose operations a module has.
_DEFINED_HERE = {
    "torchvision/_C": "_torchvision",
    "torchaudio/lib/_torchaudio": "_torchaudio",
    "torchaudio/lib/libtorchaudio": "_torchaudio",
}
_libraries: list[_library.Library] = []  # what defines them, which they end with


def load_library(path: str) -> None:
    """Refused: compiled libraries of operations are linked with PyTorch's own libraries.

    Those of torchvision and torchaudio are not loaded either: their operations are defined in
    Python.

    Args:
        path: of the library.
    """
    place = os.path.abspath(path).replace(os.sep, "/")
    for library, module in _DEFINED_HERE.items():
        _, found, suffix = place.rpartition(f"/{library}")
        if found and "/" not in suffix:
            return _define(module)
    raise OSError(
        f"load_library: {path} is linked with PyTorch's own libraries and cannot run on rushlight"
    )


@functools.cache
def _define(module):
    """Define the operations of a module, once: those without a kernel refuse."""
    own = importlib.import_module(f"rushlight.{module}")
    for namespace, kernels in own.OPERATIONS.items():
        library = _library.Library(namespace, "DEF")
        _libraries.append(library)
        for schema, kernel in kernels.items():
            name = library.define(schema)
            kernel = kernel or _refusing(f"{namespace}::{name}")
            library.impl(name, kernel, "CompositeExplicitAutograd")
    for name, (gradient, setup_context) in own.GRADIENTS.items():
        _library.register_autograd(name, gradient, setup_context=setup_context)


def _refusing(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name} is not implemented")

    return refuse


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'rushlight.ops' has no attribute {name!r}")
    if name in ("_c10d_functional", "c10d_functional", "c10d"):
        importlib.import_module("rushlight.distributed._functional_ops")
    value = globals()[name] = _namespace(name)
    return value
