"""Operations by namespace and name, `torch.ops.ns.name(...)`: those that programs register (see
`rushlight.library`), and those of the library in `torch.ops.aten`.
"""

from __future__ import annotations

from rushlight.library._operator import namespace as _namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

loaded_libraries: set[Any] = set()


def load_library(path: str) -> Any:
    """Refused: compiled libraries of operations are linked with PyTorch's own libraries."""
    raise OSError(
        f"load_library: {path} is linked with PyTorch's own libraries and cannot run on rushlight"
    )


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'rushlight.ops' has no attribute {name!r}")
    value = globals()[name] = _namespace(name)
    return value
