"""What profiles are made of, where torch has it: see rushlight.profiler."""

from rushlight.profiler.events import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
)

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]
