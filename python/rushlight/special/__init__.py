"""Special functions of mathematics, element by element."""

from rushlight import _C

globals().update(_C._functions["special"])

__all__ = sorted(_C._functions["special"])
