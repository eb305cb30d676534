"""Profiles: what ran when, on which thread, for which line of the program.

The core records events (src/core/observer.h) while a profile is under way: ops, kernels, nodes of
the graph, steps of optimizers, batches that were waited for. It records what runs without a
profile: nothing is fused, ordered or computed another way for its sake. A profile watches all
threads of the process; processes that it starts are not watched.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import time
import uuid
import warnings
import weakref
from enum import Enum

from rushlight import _C
from rushlight._ignored import warn_of, warn_once, warn_program as _warn_program
from rushlight._set_module import set_module
from rushlight.profiler.events import DeviceType, EventList, FunctionEvent, FunctionEventAvg

SEPARATOR = "\x1f"  # between the name of a span and its arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from typing_extensions import Self

    from rushlight.types import Device


class ProfilerActivity(Enum):
    """What a profile watches."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4  # of torch's own; a schedule must not return it


def supported_activities() -> set[ProfilerActivity]:
    """What can be watched: the CPU, and GPUs where there are any."""
    found = {ProfilerActivity.CPU}
    if _C._cuda.device_count():
        found.add(ProfilerActivity.CUDA)
    return found


def kineto_available() -> bool:
    """Is libkineto there? No."""
    return False


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[..., Any]:
    """The function step -> ProfilerAction of cycles of `wait`, `warmup` and `active` steps.

    Args:
        wait, warmup, active: how many steps of a cycle do nothing, are watched but forgotten, are
            kept.
        repeat: the number of cycles; 0 for no end.
        skip_first: steps before the first cycle.
        skip_first_wait: a number other than 0 leaves the first cycle's `wait` out.

    Returns:
        A function, to be given to `profile` as its schedule.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"schedule: wait={wait}, warmup={warmup}, repeat={repeat} and skip_first={skip_first}"
            f" must not be negative, and active={active} must be positive"
        )
    if warmup == 0:
        _warn_program("Profiler won't be using warmup, this can skew profiler results")

    def action(step):
        if step < 0:
            raise AssertionError(f"schedule: a step must not be negative, but is {step}")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def warn_of_unrecorded(function: Callable[..., Any], **arguments: Any) -> None:
    """Warn of what a profile is asked for and cannot do."""
    config = arguments.get("experimental_config")
    if config is not None and not getattr(config, "others", True):
        del arguments["experimental_config"]  # asks for stacks alone
    warn_of(function, "there is no other device and no libkineto", **arguments)


class record_function:
    """Marks a part of the program, for the profile that is watching, if there is one.

    A context, and a decorator.

    Args:
        name: what events and traces call the part.
        args: more words, which the event has as its only input.

    Example:
        >>> with profile() as prof:
        ...     with record_function("my part"):
        ...         y = rushlight.ones(3).exp()
        >>> [e.key for e in prof.events() if e.is_user_annotation]
        ['my part']
    """

    name: str
    args: str | None

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._spans = []

    def __enter__(self) -> Self:
        name = self.name if self.args is None else f"{self.name}{SEPARATOR}{self.args}"
        self._spans.append(_C._span_begin(name))
        return self

    def __exit__(self, *exception: Any) -> None:
        _C._span_end(self._spans.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def marked(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return marked


def record_external(name: str, start: Any, end: Any, device: Device = -1, stream: int = 0) -> None:
    """Tell the profile under way what has run elsewhere: a collective, or another device's kernel.

    Args:
        name: of what ran.
        start, end: when, in nanoseconds of `time.time_ns()`.
        device: the number of the device; -1 for the CPU.
        stream: the number of the queue or communicator that it ran in.
    """
    _C._profiler_external(name, start, end, device, stream)


_latest = None  # a weak reference to the profile that began the latest recording


def profile_under_way() -> Any:
    """The profile that records now, or None."""
    return _latest() if _latest is not None and _C._profiler_active() else None


class _Session:
    """From the beginning of a recording to its end."""

    def __init__(self, prof: Any) -> None:
        self.shows = {
            name: bool(getattr(prof, name))
            for name in (
                "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"
            )
        }  # fmt: skip
        from rushlight.profiler import modules, recording  # noqa: F401  (outside of the profile)

        self.on_gpus = ProfilerActivity.CUDA in prof.activities & supported_activities()
        self.pauses = []  # (activity, from, to) in nanoseconds; to: None while it lasts
        self.start, self.is_kept = _C._profiler_now(), False
        if self.shows["with_stack"] and sys.getprofile() is not None:
            warn_once(
                "profile: with_stack shows no functions of Python: another profiler, by"
                " sys.setprofile, watches them"
            )
        # Shapes tell the operations of kernels, which a report needs, whatever else is shown.
        if not _C._profiler_start(
            self.shows["profile_memory"], True, self.shows["with_stack"], self.shows["with_modules"]
        ):
            raise RuntimeError("profile: another profile is watching already")
        if self.shows["with_stack"]:
            _C._profiler_watch_calls()  # or not, where another profiler does
        if self.on_gpus:
            _C._cuda.timeline_start()

    def toggle(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Forget what begins on these devices from now on, or no longer."""
        now = _C._profiler_now()
        for activity in activities:
            open_ones = [p for p in self.pauses if p[0] is activity and p[2] is None]
            if enable and open_ones:
                open_ones[0][2] = now
            elif not enable and not open_ones:
                self.pauses.append([activity, now, None])

    def _is_watched(self, activity, time):
        return not any(
            kind is activity and begin <= time and (end is None or time < end)
            for kind, begin, end in self.pauses
        )

    def finish(self) -> Any:
        """What has been recorded."""
        from rushlight.profiler.recording import Recording

        on_gpus = _C._cuda.timeline_stop() if self.on_gpus else ()
        raw = _C._profiler_stop()
        if not _C._trap_active():
            _C._forget_module_paths()
        if self.pauses:  # kind, name, start ...; on GPUs name, start, end, launch
            raw = [event for event in raw if self._is_watched(ProfilerActivity.CPU, event[2])]
            on_gpus = [e for e in on_gpus if self._is_watched(ProfilerActivity.CUDA, e[3])]
        return Recording(raw, self.start, _C._profiler_now(), on_gpus=on_gpus, **self.shows)

    def discard(self) -> None:
        """Forget what has been recorded."""
        if self.on_gpus:
            _C._cuda.timeline_stop()
        _C._profiler_stop()


def _activities(given):
    """The activities among those that are given, which may name what to watch of each."""
    if given is None:
        return supported_activities()
    found = set()
    for each in given:
        for activity in each if isinstance(each, dict) else (each,):
            if not isinstance(activity, ProfilerActivity):
                raise AssertionError(f"profile: {activity!r} is no ProfilerActivity")
            if activity in found:
                raise ValueError(f"profile: activity {activity} specified more than once")
            found.add(activity)
    if not found:
        raise AssertionError("profile: activities names nothing to watch")
    return found


class profile:
    """Records what the program runs, on all of its threads.

    Args:
        activities: what is watched, all that there is by default: the CPU always, and with
            ProfilerActivity.CUDA what runs on GPUs and when, by events around each piece of work.
        schedule: step -> ProfilerAction; without it everything is kept. See `schedule`.
        on_trace_ready: called with the profile at the end of each cycle, and at the end without a
            schedule.
        record_shapes: show the shapes of arguments.
        profile_memory: show how many bytes of tensors each event kept; traces and memory timelines
            need it.
        with_stack: show the lines of the program that led to each event, and make an event of each
            call of a function by Python.
        with_flops: show floating-point operations, estimated from shapes.
        with_modules: make an event of each call of a module, named by its path.
        acc_events: keep the events of all cycles, not of the last one alone.
        custom_trace_id_callback: names the trace of each cycle; otherwise a random name.
        use_cuda: ProfilerActivity.CUDA among the activities, in an older way, with a warning.
        execution_trace_observer: an `ExecutionTraceObserver`, which records with each trace and
            writes its file when the `with` block ends.
        experimental_config, post_processing_timeout_s: have no effect, with a warning.

    Example:
        >>> x = rushlight.ones(8, 8)
        >>> with profile(record_shapes=True) as prof, record_function("twice"):
        ...     y = (x @ x) @ x
        >>> [(e.key, e.count) for e in prof.key_averages()]
        [('twice', 1), ('aten::matmul', 2), ('aten::mm', 2)]
    """

    schedule: Any
    on_trace_ready: Any
    record_shapes: bool

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: ExecutionTraceObserver | None = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        if use_cuda is not None:
            _warn_program(
                "`use_cuda` is deprecated, use `activities` argument instead",
                FutureWarning,
            )
        warn_of_unrecorded(
            "profiler.profile", experimental_config=experimental_config,
            post_processing_timeout_s=post_processing_timeout_s,
        )  # fmt: skip
        if not isinstance(execution_trace_observer, (ExecutionTraceObserver, type(None))):
            raise TypeError(
                "profile: execution_trace_observer must be an ExecutionTraceObserver, not "
                f"{type(execution_trace_observer).__name__}"
            )
        self.activities: Any = _activities(activities)
        if use_cuda:
            self.activities.add(ProfilerActivity.CUDA)
        for activity in self.activities - supported_activities():
            warn_once(f"profiler.profile: {activity} is not watched: there is no such device")
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events: bool = acc_events
        self.execution_trace_observer: ExecutionTraceObserver | None = execution_trace_observer
        self.custom_trace_id_callback: Any = custom_trace_id_callback
        self.step_num: int = 0
        self.current_action: Any = self._planned(0)
        self.recording: Any = None  # of the last cycle: what the core has recorded
        self._earlier = []  # events of the cycles before, with acc_events
        self._session = self._step = self._trace_id = None
        self._was_prepared = False
        self._metadata = {}

    # -- when to record ----------------------------------------------------------------------------

    def _planned(self, step):
        action = ProfilerAction.RECORD if self.schedule is None else self.schedule(step)
        if action is ProfilerAction.DEVICE_STOPPED:
            raise ValueError("profile: a schedule must not return ProfilerAction.DEVICE_STOPPED")
        return action

    def prepare_trace(self) -> None:
        """Begin to watch, for a trace that has not begun: what runs meanwhile is forgotten."""
        if self._session is not None:
            return
        if self.recording is not None:
            if self.acc_events:
                self._earlier += self.recording.events()
            else:
                warn_once(
                    "Profiler clears events at the end of each cycle. Only events from the current"
                    " cycle will be reported. To keep events across cycles, set acc_events=True."
                )
        self._was_prepared = True
        name = self.custom_trace_id_callback
        self._trace_id = uuid.uuid4().hex.upper() if name is None else name()
        self._record()

    def _record(self):
        global _latest
        self._session = _Session(self)
        _latest = weakref.ref(self)

    def start_trace(self) -> None:
        """Begin a trace: what was watched so far is forgotten."""
        if self._session is None:
            raise AssertionError("start_trace: prepare_trace must have been called before")
        if self._session.is_kept:
            return
        self._session.discard()
        self._record()
        self._session.is_kept = True
        if self.execution_trace_observer is not None:
            self.execution_trace_observer._follow()
        for name, is_shown in self._session.shows.items():
            if is_shown:
                self._metadata[name] = 1

    def stop_trace(self) -> None:
        """End a trace."""
        if self._session is not None:
            session, self._session = self._session, None
            self.recording = session.finish()
            if self.execution_trace_observer is not None:
                self.execution_trace_observer._take(self.recording)

    def _forget(self):
        if self._session is not None:
            self._session.discard()
            self._session = None

    def _leave(self, action, following):
        """End what a step has done, before one that does `following`, or the profile's end."""
        is_over = following is None
        if action is ProfilerAction.WARMUP:
            if following is ProfilerAction.NONE:
                _warn_program("Incorrect schedule: WARMUP followed by NONE")
            if is_over or following is ProfilerAction.NONE:  # a trace of nothing
                self.start_trace()
                self.stop_trace()
        elif action is ProfilerAction.RECORD:
            if following in (ProfilerAction.NONE, ProfilerAction.WARMUP):
                _warn_program(f"Incorrect schedule: RECORD followed by {following.name}")
            if is_over or following in (ProfilerAction.NONE, ProfilerAction.WARMUP):
                self.stop_trace()
        elif action is ProfilerAction.RECORD_AND_SAVE:
            self.stop_trace()
        ends = is_over and action is ProfilerAction.RECORD
        if (ends or action is ProfilerAction.RECORD_AND_SAVE) and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _enter(self, action):
        if action is not ProfilerAction.NONE:
            self.prepare_trace()
        if action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self.start_trace()

    def _begin_step(self):
        if self.schedule is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def start(self) -> None:
        """Begin."""
        self._enter(self.current_action)
        self._begin_step()

    def step(self) -> None:
        """Say that a step of the program ends and the next begins."""
        self._end_step()
        before, after = self.current_action, self._planned(self.step_num + 1)
        self.step_num, self.current_action = self.step_num + 1, after
        self._leave(before, after)
        self._enter(after)
        self._begin_step()

    def stop(self) -> None:
        """End."""
        self._end_step()
        if not self._was_prepared and self.current_action is not ProfilerAction.NONE:
            raise AssertionError("profile.stop: start() must have been called before")
        if self._session is not None:
            self._leave(self.current_action, None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Have `callback` name the traces of the cycles to come."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the trace of this cycle, which traces hold; None before the first one."""
        return self._trace_id

    # -- what was recorded -------------------------------------------------------------------------

    def _recorded(self, function):
        self._check_prepared(function)
        if self.recording is None:
            raise RuntimeError(f"profile.{function}: nothing has been recorded so far")
        return self.recording

    def _check_prepared(self, function):
        if not self._was_prepared:
            raise AssertionError(f"profile.{function}: the profile has not begun")

    def events(self) -> Any:
        """All events, in the order of their starts; none before the profile has ended.

        They are those of the last cycle, or with acc_events=True of all.

        Raises:
            AssertionError: the profile has not begun.
        """
        self._check_prepared("events")
        if self.recording is None:
            return EventList()
        last = self.recording.events()
        return last._like([*self._earlier, *last]) if self._earlier else last

    @property
    def profiler(self) -> Any:
        """The same as an `autograd.profiler.profile`, which has more sums; None before it begins.

        Example:
            >>> with rushlight.profiler.profile() as prof:
            ...     y = rushlight.ones(3).exp()
            >>> [event.name for event in prof.profiler.function_events]
            ['aten::ones', 'aten::exp']
        """
        from rushlight.autograd import profiler

        if not self._was_prepared:
            return None
        watched = self.activities & supported_activities()
        device = "cuda" if ProfilerActivity.CUDA in watched else None
        return profiler.profile._of(self, device)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> Any:
        """The events summed up by name: see EventList.key_averages."""
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for chrome://tracing or Perfetto; `.gz` at the end compresses.

        Arrows lead from each forward op to the node that computes its gradient. With
        profile_memory=True the trace counts the bytes of tensors.
        """
        from rushlight.profiler.trace import write_chrome_trace

        recording = self._recorded("export_chrome_trace")
        metadata = {"trace_id": self._trace_id, **self._metadata}
        write_chrome_trace(path, recording, recording.events(), metadata)

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write the time of each stack for flame graph tools; the profile needs with_stack=True."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: str | os.PathLike[str], device: Device = None) -> None:
        """Write how many bytes tensors held at what time, by category.

        Args:
            path: ends in .html for a page, in .raw.json or .raw.json.gz for a list of [time,
                action, bytes, category] (2: got, 4: given back), otherwise for [times, sizes].
            device: "cpu", or None for the same.

        Raises:
            ValueError: the profile was not made with profile_memory=True.
        """
        from rushlight.profiler.memory_timeline import export_memory_timeline

        if device not in (None, "cpu"):
            raise ValueError(f"export_memory_timeline: device must be 'cpu', not {device!r}")
        export_memory_timeline(self._memory_profile("export_memory_timeline"), path)

    def _memory_profile(self, function: str = "_memory_profile") -> Any:
        recording = self._recorded(function)
        if not self.profile_memory:
            raise ValueError(f"{function}: the profile needs profile_memory=True")
        return recording

    def report(self) -> Any:
        """Where the time went, each kernel beside the machine's limits, and what would pay most.

        The first report measures the machine, which takes half a second.

        Returns:
            A `rushlight.profiler.report.Report`; print it.

        Example:
            >>> x = rushlight.ones(64, 64)
            >>> with profile() as prof:
            ...     y = x @ x
            >>> sorted(prof.report().parts)
            ['Python', 'copies', 'dispatch', 'kernels', 'waiting for data']
        """
        from rushlight.profiler.report import Report

        return Report(self._recorded("report").with_all())

    def flame_graph(self) -> Any:
        """The events as a flame graph: `.save(path)` writes a page, a notebook shows it."""
        from rushlight.profiler.pages import flame_page

        return flame_page(self.events())

    def memory_timeline(self) -> Any:
        """The bytes of tensors over time as a picture, as `flame_graph` gives one."""
        from rushlight.profiler.memory_timeline import memory_timeline
        from rushlight.profiler.pages import memory_page

        recording = self._recorded("memory_timeline")
        if not self.profile_memory:
            raise ValueError("memory_timeline: the profile needs profile_memory=True")
        return memory_page(memory_timeline(recording))

    def add_metadata(self, key: str, value: Any) -> None:
        """Have traces hold the text `value` under `key`."""
        self._metadata[key] = str(value)

    preset_metadata = add_metadata

    def add_metadata_json(self, key: str, value: Any) -> None:
        """Have traces hold what the JSON text `value` says under `key`."""
        import json

        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Forget, or keep again, what begins from now on.

        Args:
            enable: keep it.
            activities: of which devices; one that is not watched is never kept.
        """
        if self._session is not None:
            self._session.toggle(enable, activities)


_KinetoProfile = profile  # torch's has no schedule


def tensorboard_trace_handler(
    dir_name: Any, worker_name: Any = None, use_gzip: bool = False
) -> Any:
    """An `on_trace_ready` that writes each trace into a folder.

    Args:
        dir_name: the folder, which is made if it is not there.
        worker_name: begins the names of files; by default host and process.
        use_gzip: compress.
    """
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
    ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"

    def write(prof):
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(
                f"tensorboard_trace_handler: cannot make the folder {dir_name}"
            ) from error
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{ending}"))

    return write


from rushlight.profiler.execution_trace import ExecutionTraceObserver  # noqa: E402

__all__ = [
    "DeviceType",
    "EventList", "ExecutionTraceObserver", "FunctionEvent", "FunctionEventAvg",
    "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile", "record_external",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip

set_module("rushlight.autograd.profiler", record_function)
set_module(
    "rushlight.profiler.profiler", ProfilerAction, profile, schedule, supported_activities,
    tensorboard_trace_handler,
)  # fmt: skip

from rushlight.profiler import itt  # noqa: E402, F401  (as torch.profiler.itt)
