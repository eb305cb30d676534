"""Measuring how long statements take: `Timer` runs them, `Compare` prints tables of the results."""

from rushlight._set_module import set_module
from rushlight.utils.benchmark._compare import Compare
from rushlight.utils.benchmark._measurement import Measurement, TaskSpec, select_unit
from rushlight.utils.benchmark._timer import Language, Timer, timer

__all__ = ["Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]

set_module(__name__, Compare, Language, Measurement, TaskSpec, Timer, select_unit)
