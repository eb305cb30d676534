"""Tensors with a mask."""

from rushlight._set_module import set_module as _set_module
from rushlight.masked._tensor import MaskedTensor, is_masked_tensor

__all__ = ["MaskedTensor", "is_masked_tensor"]

_set_module(__name__, MaskedTensor, is_masked_tensor)
