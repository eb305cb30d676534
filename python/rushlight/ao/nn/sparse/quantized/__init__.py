"""Quantized layers whose weights are zero in blocks: refused, as their kernels are not here."""

from __future__ import annotations

from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.nn.sparse.quantized import dynamic
from rushlight.ao.nn.sparse.quantized._blocks import (
    LinearBlockSparsePattern as _LinearBlockSparsePattern,
    refuse as _refuse,
)
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LinearPackedParams(Module):
    """Refused: products with weights packed in blocks are kernels that are not here."""

    def __init__(self, row_block_size: int = 1, col_block_size: int = 4, dtype: Any = None) -> None:
        _refuse("LinearPackedParams", row_block_size, col_block_size, dtype)


class Linear(Module):
    """Refused: products with weights packed in blocks are kernels that are not here."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        row_block_size: int,
        col_block_size: int,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        _refuse("Linear", in_features, out_features, row_block_size, col_block_size, bias, dtype)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Linear:
        """Refused, as the layer is."""
        _refuse("Linear.from_float", mod, use_precomputed_fake_quant)


LinearBlockSparsePattern = _LinearBlockSparsePattern

__all__ = ["Linear", "LinearBlockSparsePattern", "LinearPackedParams", "dynamic"]

_add_modules(
    __name__,
    {
        "dynamic.linear": "ao.nn.sparse.quantized.dynamic",
        "linear": "LinearPackedParams Linear",
        "utils": "LinearBlockSparsePattern",
    },
)
