"""The older place of what is in `ao.quantization`."""

from __future__ import annotations

from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.quantization import *  # noqa: F403
from rushlight.ao.quantization import __all__ as __all__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_add_modules(
    __name__,
    {
        name: f"ao.quantization.{name}"
        for name in (
            "fake_quantize", "fuse_modules", "fuser_method_mappings", "observer", "qconfig",
            "quant_type", "quantization_mappings", "quantize", "quantize_jit", "stubs", "utils",
        )
    },
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("fx", "quantize_fx"):
        import importlib

        return importlib.import_module(f"rushlight.quantization.{name}")
    raise AttributeError(f"module 'rushlight.quantization' has no attribute {name!r}")
