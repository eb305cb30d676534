"""The older place of the profiler: see rushlight.profiler."""

from rushlight import profiler as _profiler
from rushlight._absent import refusals
from rushlight.profiler import EventList, FunctionEvent, FunctionEventAvg, record_function


class profile(_profiler.profile):
    """rushlight.profiler.profile with the older arguments; the profile itself is a list of sums.

    Args:
        enabled: False watches nothing.
        record_shapes: keep the shapes of the arguments.
        others: accepted; see rushlight.profiler.
    """

    def __init__(
        self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False, **options
    ):
        super().__init__(record_shapes=record_shapes)
        self.enabled = enabled

    def __enter__(self):
        return super().__enter__() if self.enabled else self

    @property
    def function_events(self):
        """All events."""
        return self.events()

    @property
    def self_cpu_time_total(self):
        """The time of all, in microseconds."""
        return self.events().self_cpu_time_total

    def table(self, sort_by=None, **options):
        """The events as a table."""
        return self.events().table(sort_by, **options)

    def total_average(self):
        """The sum of all."""
        return self.events().total_average()


globals().update(refusals("CUDA", ("emit_itt", "emit_nvtx")))

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]
