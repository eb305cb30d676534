"""Dynamically quantized layers whose weights are zero in blocks: refused."""

from __future__ import annotations

from rushlight._set_module import set_module as _set_module
from rushlight.ao.nn.sparse.quantized._blocks import refuse as _refuse
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
        _refuse(
            "dynamic.Linear", in_features, out_features, row_block_size, col_block_size, bias, dtype
        )

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Linear:
        """Refused, as the layer is."""
        _refuse("dynamic.Linear.from_float", mod, use_precomputed_fake_quant)


_set_module(f"{__name__}.linear", Linear)

__all__ = ["Linear"]
