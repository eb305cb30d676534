"""Finding out what a program does: where NaN comes from, and what holds its memory.

See docs/profiling.md.
"""

from rushlight.debug.memory import MemoryReport, memory_report, track_memory
from rushlight.debug.nan import describe, trap_nan

__all__ = ["MemoryReport", "describe", "memory_report", "track_memory", "trap_nan"]
