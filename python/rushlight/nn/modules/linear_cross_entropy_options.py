"""How linear_cross_entropy may trade memory for time."""

from dataclasses import dataclass
from typing import Any

__all__ = ["LinearCrossEntropyOptions"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Options of `linear_cross_entropy`; they never change its result."""

    allow_retain_graph: bool = False
    batch_chunk_size: Any = None
    chunking_method: Any = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None
