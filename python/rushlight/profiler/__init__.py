"""A simple profiler: how long the calls of operations take, seen from Python.

It sees what a function mode sees: every function and method of the library that the thread calls,
with what the call itself costs in Python. The backward pass is not divided into its operations:
mark it by `record_function`. Memory, stacks and floating-point operations are not counted.
"""

import functools
import os
import socket
import threading
import time
from enum import Enum

from rushlight.overrides import TorchFunctionMode, _remove_mode
from rushlight.profiler.events import EventList, FunctionEvent, FunctionEventAvg

_active = threading.local()  # .recorder: that of this thread


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


def supported_activities():
    """What can be watched: the CPU."""
    return {ProfilerActivity.CPU}


def kineto_available():
    """Is libkineto there? No."""
    return False


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """The function step -> ProfilerAction of cycles of `wait`, `warmup` and `active` steps.

    Args:
        wait, warmup, active: how many steps of a cycle do nothing, are watched but forgotten, are
        kept.
        repeat: the number of cycles; 0 for no end.
        skip_first: steps before the first cycle.
        skip_first_wait: a number other than 0 leaves the first cycle's `wait` out.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step):
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


class _Recorder(TorchFunctionMode):
    """Times every call."""

    def __init__(self, with_shapes):
        super().__init__()
        self.with_shapes = with_shapes
        self.events = EventList()
        self.inner_times = []  # for each call that is running, the time of the calls inside it

    def __torch_function__(self, func, types, args=(), kwargs=None):
        inside = getattr(func, "__wrapped__", None)
        with _Timer(self, getattr(func, "__name__", str(func)), args if self.with_shapes else ()):
            if inside is None:
                return func(*args, **(kwargs or {}))
            with self:
                return inside(*args, **(kwargs or {}))


class _Timer:
    """Makes an event of a `with` block."""

    def __init__(self, recorder, name, args=()):
        self.recorder, self.name, self.args = recorder, name, args

    def __enter__(self):
        self.recorder.inner_times.append(0)
        self.start = time.perf_counter_ns()

    def __exit__(self, *exception):
        end = time.perf_counter_ns()
        recorder, took = self.recorder, end - self.start
        own = took - recorder.inner_times.pop()
        if recorder.inner_times:
            recorder.inner_times[-1] += took
        shapes = (
            [list(a.shape) if hasattr(a, "shape") else [] for a in self.args]
            if recorder.with_shapes
            else None
        )
        depth = len(recorder.inner_times)
        recorder.events.append(
            FunctionEvent(self.name, threading.get_ident(), self.start, end, own, depth, shapes)
        )


class record_function:
    """Marks a part of the program, for the profile that is watching, if there is one.

    A context, and a decorator.
    """

    def __init__(self, name, args=None):
        self.name, self.args = name, args
        self._timers = []

    def __enter__(self):
        recorder = getattr(_active, "recorder", None)
        timer = None if recorder is None else _Timer(recorder, self.name)
        if timer is not None:
            timer.__enter__()
        self._timers.append(timer)
        return self

    def __exit__(self, *exception):
        timer = self._timers.pop()
        if timer is not None and timer.recorder.inner_times:
            timer.__exit__()

    def __call__(self, function):
        @functools.wraps(function)
        def marked(*args, **kwargs):
            with record_function(self.name):
                return function(*args, **kwargs)

        return marked


class profile:
    """Watches the operations of this thread.

    Args:
        activities: accepted; the CPU is watched.
        schedule: step -> ProfilerAction; without it everything is kept. See `schedule`.
        on_trace_ready: called with the profile at the end of each cycle, and at the end without a
        schedule.
        record_shapes: keep the shapes of the arguments.
        others: accepted; see the module.

    Example:
        >>> x = rushlight.ones(8, 8)
        >>> with profile(record_shapes=True) as prof, record_function("twice"):
        ...     y = (x @ x) @ x
        >>> [(e.key, e.count) for e in prof.key_averages()]
        [('matmul', 2), ('twice', 1)]
    """

    def __init__(
        self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
        profile_memory=False,
        with_stack=False, with_flops=False, with_modules=False, **options
    ):  # fmt: skip
        self.activities = supported_activities() if activities is None else set(activities)
        self.schedule, self.on_trace_ready, self.record_shapes = (
            schedule,
            on_trace_ready,
            record_shapes,
        )
        self.step_num = 0
        self._recorder = None
        self._events = EventList()
        self._step = None

    def _action(self):
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def start(self):
        """Begin."""
        self._begin(self._action())

    def _begin(self, action):
        if action is ProfilerAction.NONE:
            return
        if self._recorder is None:
            if getattr(_active, "recorder", None) is not None:
                raise RuntimeError("profile: another profile is watching this thread already")
            self._recorder = _active.recorder = _Recorder(self.record_shapes).__enter__()
        if self.schedule is not None:
            self._step = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _end(self):
        if self._recorder is not None:
            self._events = self._recorder.events
            _remove_mode(self._recorder)
            self._recorder = _active.recorder = None

    def step(self):
        """Say that a step of the program ends and the next begins."""
        before = self._action()
        self._end_step()
        self.step_num += 1
        now = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._end()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        elif now is ProfilerAction.NONE:
            self._end()
        elif (
            before is ProfilerAction.WARMUP
            and now is not ProfilerAction.WARMUP
            and self._recorder is not None
        ):
            self._recorder.events.clear()
        if self.schedule is not None:
            self._begin(now)

    def stop(self):
        """End."""
        is_watching = self._recorder is not None
        self._end_step()
        self._end()
        if is_watching and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.stop()

    def events(self):
        """All events, in the order of their ends."""
        return self._events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """The events summed up by name, or by name and shapes."""
        return self._events.key_averages(group_by_input_shape)

    def export_chrome_trace(self, path):
        """Write the events for chrome://tracing or Perfetto."""
        self._events.export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write the time of each name, as flame graph tools read it."""
        self._events.export_stacks(path, metric)

    def add_metadata(self, key, value):
        """Accepted: the trace holds events alone."""

    add_metadata_json = add_metadata

    def toggle_collection_dynamic(self, enable, activities):
        """Raises NotImplementedError: use a schedule."""
        raise NotImplementedError("profile.toggle_collection_dynamic: use a schedule")


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """An `on_trace_ready` that writes each trace into a folder."""
    if use_gzip:
        raise NotImplementedError("tensorboard_trace_handler: traces are not compressed")
    os.makedirs(dir_name, exist_ok=True)
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def write(prof):
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write


__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
