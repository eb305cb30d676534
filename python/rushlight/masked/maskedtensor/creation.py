"""What makes tensors with a mask."""

from rushlight._set_module import set_module as _set_module
from rushlight.masked._tensor import as_masked_tensor, masked_tensor

__all__ = ["as_masked_tensor", "masked_tensor"]

_set_module(__name__, as_masked_tensor, masked_tensor)
