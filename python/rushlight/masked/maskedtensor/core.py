"""Tensors with a mask."""

from rushlight.masked._tensor import MaskedTensor, is_masked_tensor

__all__ = ["MaskedTensor", "is_masked_tensor"]
