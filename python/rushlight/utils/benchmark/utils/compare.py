"""Tables of measurements."""

from rushlight.utils.benchmark._compare import Compare

__all__ = ["Compare"]
