"""Comparison of whole tensors."""
from ops.schema import composite

_TOLERANCE = "other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False"
composite(f"isclose(input: Tensor, {_TOLERANCE})", """
    check(dtype(input) == dtype(other), "isclose: ", dtype(input), " did not match ", dtype(other))
    check(rtol >= 0, "isclose: rtol must be greater than or equal to zero, but got ", rtol)
    check(atol >= 0, "isclose: atol must be greater than or equal to zero, but got ", atol)
    with no_grad():
        close = eq(input, other)
        if equal_nan and is_differentiable(dtype(input)):
            close = logical_or(close, logical_and(ne(input, input), ne(other, other)))
        if rtol == 0 and atol == 0:
            return close
        a = floating(input)
        b = floating(other)
        distance = abs(a - b)
        allowed = abs(b * rtol) + atol
        return logical_or(close, logical_and(isfinite(distance), le(distance, allowed)))
          """, ref="numpy.isclose",
          doc="Is |input - other| at most atol + rtol * |other|?",
          batch="elementwise")
composite(f"allclose(input: Tensor, {_TOLERANCE}) -> bool",
          'truth("allclose", all(isclose(input, other, rtol, atol, equal_nan)))',
          ref="numpy.allclose",
          doc="Is |input - other| at most atol + rtol * |other| everywhere?", batch="value")
composite("equal(input: Tensor, other: Tensor) -> bool", """
    if sizes(input) != sizes(other):
        return False
    with no_grad():
        return truth("equal", all(eq(input, other)))
          """,
          doc="Have both the same shape and elements?", ref="numpy.array_equal",
          batch="value")
composite("is_same_size(input: Tensor, other: Tensor) -> bool",
          "sizes(input) == sizes(other)", doc="Have both the same shape?",
          batch="metadata")
