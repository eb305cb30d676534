"""Measuring a statement."""

from rushlight.utils.benchmark._timer import Language, Timer, timer

__all__ = ["Language", "Timer", "timer"]
