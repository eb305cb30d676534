"""Lowering to FBGEMM, which is refused: quantized graphs call this library's own kernels."""

from __future__ import annotations

from rushlight.ao.quantization.fx._refusal import refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

lower_to_fbgemm: Any = refused("lower_to_fbgemm", "convert_fx")

__all__ = ["lower_to_fbgemm"]
