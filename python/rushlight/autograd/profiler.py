"""The older place of the profiler: see rushlight.profiler."""

from __future__ import annotations

import bisect
import uuid

from rushlight import _C, profiler as _profiler
from rushlight._ignored import warn_program as _warn_program
from rushlight.profiler import (
    DeviceType,
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    kineto_available,
    record_function,
)
from rushlight.profiler.ranges import emit_itt, emit_nvtx, load_nvprof, parse_nvprof_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.profiler import ProfilerActivity


_USABLE = ("cuda", "xpu", "mtia", "hpu")


def _usable(device):
    """The device, if it is one that there is; else None, with torch's warning."""
    if device is None or (device == "cuda" and _C._cuda.device_count()):
        return device
    if device == "mtia":
        raise AssertionError("profile: MTIA devices are not supported")
    if device in _USABLE:
        name = device.upper()
        _warn_program(f"{name} is not available, disabling {name} profiling")
    else:
        _warn_program(f"The {device} is not a valid device option.")
    return None


class profile(_profiler.profile):
    """rushlight.profiler.profile with the older arguments; the profile itself is a table.

    Args:
        enabled: False watches nothing.
        use_cpu: must be True, but where use_kineto is and there is another device: False then shows
            no events of the CPU.
        use_device: "cuda", or None; another one is left out, with a warning.
        record_shapes, with_flops, profile_memory, with_stack, with_modules: what events show.
        use_kineto: must be True where use_cpu is False; it changes nothing else.
        others: have no effect, with a warning; see rushlight.profiler.

    Example:
        >>> with profile() as prof:
        ...     y = rushlight.ones(3).exp()
        >>> [e.name for e in prof.function_events]
        ['aten::ones', 'aten::exp']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: Any = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: dict[ProfilerActivity, set[str]] | None = None,
    ) -> None:  # fmt: skip
        if enabled and use_cuda:
            _warn_program(
                "The attribute `use_cuda` will be deprecated soon, please use"
                " ``use_device = 'cuda'`` instead.",
                FutureWarning,
            )
            use_device = "cuda"
        self.use_device: str | None = _usable(use_device) if enabled else None
        self.use_cuda: bool = use_cuda and self.use_device == "cuda"
        kinds = _profiler.ProfilerActivity
        activities = [kinds.CPU, kinds.CUDA] if self.use_device else [kinds.CPU]
        if enabled and not use_cpu and not (use_kineto and self.use_device):
            raise AssertionError(
                "profile: use_cpu=False needs use_kineto=True and another device that there is"
            )
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("profile: post_processing_timeout_s must not be negative")
        _profiler.warn_of_unrecorded(
            "autograd.profiler.profile", experimental_config=experimental_config,
            post_processing_timeout_s=post_processing_timeout_s, activity_filters=activity_filters,
        )  # fmt: skip
        super().__init__(
            activities=activities, record_shapes=record_shapes or with_flops, with_flops=with_flops,
            profile_memory=profile_memory, with_stack=with_stack, with_modules=with_modules,
            acc_events=acc_events, custom_trace_id_callback=custom_trace_id_callback,
        )  # fmt: skip
        self.enabled: bool = enabled
        self.use_cpu: bool = use_cpu
        self.entered: bool = False

    @classmethod
    def _of(cls, other, device):
        """What another class of profiles has recorded so far."""
        made = object.__new__(cls)
        made.__dict__.update(vars(other), enabled=True, entered=True, use_device=device)
        made.__dict__.update(
            use_cuda=False, use_cpu=_profiler.ProfilerActivity.CPU in other.activities
        )
        return made

    @staticmethod
    def default_trace_id() -> str:
        """A random name for a trace."""
        return uuid.uuid4().hex.upper()

    def create_trace_id(self) -> str:
        """A name for a trace: that of `custom_trace_id_callback`, or a random one."""
        name = self.custom_trace_id_callback
        return self.default_trace_id() if name is None else name()

    def _is_unfinished(self):
        return self.enabled and self.recording is None

    def __str__(self) -> str:
        return "<unfinished autograd.profiler.profile>" if self._is_unfinished() else self.table()

    def __repr__(self) -> str:
        unfinished = self._is_unfinished()
        return "<unfinished autograd.profiler.profile>" if unfinished else repr(self.events())

    def _check_prepared(self, function):
        """A profile that has not begun has no events, as in torch."""

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            super().__exit__(*exception)

    def _enter(self, action):
        if self.enabled:
            super()._enter(action)

    @property
    def function_events(self) -> EventList:
        """All events."""
        return self.events()

    def events(self) -> EventList:
        """All events, in the order of their starts; none before the profile has ended."""
        events = super().events()
        if self.use_cpu:
            return events
        return events._like(e for e in events if e.device_type != DeviceType.CPU)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all, in microseconds."""
        return self.events().self_cpu_time_total

    def table(
        self,
        sort_by: Any = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: Any = None,
        top_level_events_only: bool = False,
        time_unit: Any = None,
    ) -> Any:  # fmt: skip
        """The events as a table: see EventList.table."""
        return self.events().table(
            sort_by, row_limit, max_src_column_width, max_name_column_width,
            max_shapes_column_width, header, top_level_events_only, time_unit,
        )  # fmt: skip

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        return self.events().total_average()


def _profiler_enabled():
    """Is a profile under way?"""
    return _C._profiler_active()


def __getattr__(name: str) -> Any:
    if name == "_is_profiler_enabled":  # a variable in torch, which is always up to date
        return _profiler_enabled()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class EnforceUnique:
    """Raises an error when the same key is seen again."""

    def __init__(self) -> None:
        self._keys: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key.

        Raises:
            RuntimeError: it has been seen.
        """
        if key in self._keys:
            raise RuntimeError(f"EnforceUnique: duplicate key: {key}")
        self._keys.add(key)


class KinetoStepTracker:
    """The number of the training step, of which several parts of a program may count: the largest
    count is the step.
    """

    _current = 0
    _counts: dict[str, int] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Begin to count at the present step."""
        cls._counts[requester] = cls._current

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a part's count; was there one?"""
        return cls._counts.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """One more step of this part; returns the step."""
        cls._counts[requester] = cls._counts.get(requester, cls._current) + 1
        cls._current = max(cls._current, *cls._counts.values())
        return cls._current

    @classmethod
    def current_step(cls) -> int:
        """The step."""
        return cls._current


class MemRecordsAcc:
    """Records of memory, to be found by the time at which they were made.

    Args:
        mem_records: pairs of a record, which has `start_ns()`, and a flag.
    """

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._records = sorted(mem_records, key=lambda pair: pair[0].start_ns())
        self._starts = [pair[0].start_ns() for pair in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Those from one time to another, in nanoseconds."""
        first = bisect.bisect_left(self._starts, start_ns)
        last = bisect.bisect_right(self._starts, end_ns)
        yield from self._records[first:last]


__all__ = [
    "EnforceUnique", "KinetoStepTracker", "MemRecordsAcc",
    "EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "kineto_available",
    "load_nvprof", "parse_nvprof_trace", "profile", "record_function",
]  # fmt: skip
