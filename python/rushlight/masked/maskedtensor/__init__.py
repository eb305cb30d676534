"""Tensors with a mask, where torch keeps them."""

from rushlight.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
from rushlight.masked.maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
