"""Measuring a statement."""

from rushlight._set_module import set_module as _set_module
from rushlight.utils.benchmark._timer import Language, Timer, timer

__all__ = ["Language", "Timer", "timer"]

_set_module(__name__, Language, Timer)
