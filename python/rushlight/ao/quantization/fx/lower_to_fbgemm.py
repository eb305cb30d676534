"""Lowering to FBGEMM, which is refused: quantized graphs call this library's own kernels."""

from __future__ import annotations

from rushlight.ao.quantization.fx import _refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

lower_to_fbgemm: Any = _refusal.refused(__name__, "lower_to_fbgemm", "convert_fx")

__all__ = ["lower_to_fbgemm"]
