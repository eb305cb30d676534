"""Tensors shared with other libraries without a copy."""

from __future__ import annotations

from rushlight import from_dlpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor as a DLPack capsule, for `from_dlpack` of another library."""
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
