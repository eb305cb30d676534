"""Operations by namespace and name, `torch.ops.ns.name(...)`: those that programs register (see
`rushlight.library`), and those of the library in `torch.ops.aten`.
"""

from __future__ import annotations

import os

from rushlight.library._operator import namespace as _namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

loaded_libraries: set[Any] = set()


def load_library(path: str) -> None:
    """Refused: compiled libraries of operations are linked with PyTorch's own libraries.

    Those of torchvision and torchaudio are not loaded either: their operations are defined in
    Python.

    Args:
        path: of the library.
    """
    *_, package, place, name = os.path.abspath(path).split(os.sep)
    if place == "torchvision" and name.startswith("_C"):
        from rushlight import _torchvision

        return _torchvision.define()
    names = "_torchaudio", "libtorchaudio"
    if (package, place) == ("torchaudio", "lib") and name.startswith(names):
        from rushlight import _torchaudio

        return _torchaudio.define()
    raise OSError(
        f"load_library: {path} is linked with PyTorch's own libraries and cannot run on rushlight"
    )


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'rushlight.ops' has no attribute {name!r}")
    value = globals()[name] = _namespace(name)
    return value
