"""Tables of measurements."""

from rushlight._set_module import set_module as _set_module
from rushlight.utils.benchmark._compare import Compare

__all__ = ["Compare"]

_set_module(__name__, Compare)
