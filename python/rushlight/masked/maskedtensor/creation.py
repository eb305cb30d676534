"""What makes tensors with a mask."""

from rushlight.masked._tensor import as_masked_tensor, masked_tensor

__all__ = ["as_masked_tensor", "masked_tensor"]
