"""`compatibility`, by the path that libraries know."""

from rushlight.fx._symbolic_trace import compatibility

__all__ = ["compatibility"]
