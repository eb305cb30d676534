"""Comparison of whole tensors."""
from ops.schema import composite

_TOLERANCE = "other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False"
composite(f"isclose(input: Tensor, {_TOLERANCE})", ref="numpy.isclose",
          doc="Is |input - other| at most atol + rtol * |other|?",
          batch="elementwise")
composite(f"allclose(input: Tensor, {_TOLERANCE}) -> bool", ref="numpy.allclose",
          doc="Is |input - other| at most atol + rtol * |other| everywhere?", batch="value")
composite("equal(input: Tensor, other: Tensor) -> bool",
          doc="Have both the same shape and elements?", ref="numpy.array_equal",
          batch="value")
composite("is_same_size(input: Tensor, other: Tensor) -> bool", doc="Have both the same shape?",
          batch="metadata")
