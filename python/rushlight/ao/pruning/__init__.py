"""Weights with zeros: sparsifiers choose masks while a model is trained, schedules how many."""

from __future__ import annotations

from rushlight.ao.pruning.scheduler import BaseScheduler, CubicSL, LambdaSL
from rushlight.ao.pruning.sparsifier import (
    BaseSparsifier,
    FakeSparsity,
    NearlyDiagonalSparsifier,
    WeightNormSparsifier,
    fqn_to_module,
    get_arg_info_from_tensor_fqn,
    module_to_fqn,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "BaseScheduler", "BaseSparsifier", "CubicSL", "FakeSparsity", "LambdaSL",
    "NearlyDiagonalSparsifier", "WeightNormSparsifier", "fqn_to_module",
    "get_arg_info_from_tensor_fqn", "get_dynamic_sparse_quantized_mapping",
    "get_static_sparse_quantized_mapping", "module_to_fqn",
]  # fmt: skip


def get_static_sparse_quantized_mapping() -> dict[Any, Any]:
    """Return the class with a weight that is zero in blocks of each class of layers."""
    from rushlight.ao.quantization import get_default_static_sparse_quant_module_mappings

    return get_default_static_sparse_quant_module_mappings()


def get_dynamic_sparse_quantized_mapping() -> dict[Any, Any]:
    """As `get_static_sparse_quantized_mapping`, for inputs as they come."""
    from rushlight.ao.quantization import get_default_dynamic_sparse_quant_module_mappings

    return get_default_dynamic_sparse_quant_module_mappings()
