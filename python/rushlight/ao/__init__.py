"""Quantization and pruning: the layers, and what makes quantized models of ordinary ones."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from rushlight.ao import nn, ns, pruning, quantization

__all__ = ["nn", "ns", "pruning", "quantization"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        import importlib

        return importlib.import_module(f"rushlight.ao.{name}")
    raise AttributeError(f"module 'rushlight.ao' has no attribute {name!r}")
