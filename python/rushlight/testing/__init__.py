"""Assertions on tensors, and random tensors to make them about."""

from rushlight._set_module import set_module
from rushlight.testing.comparison import assert_allclose, assert_close
from rushlight.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

set_module(__name__, *(globals()[name] for name in __all__))
