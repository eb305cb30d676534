"""What the core has recorded, as events that know what ran inside of them."""

from __future__ import annotations

import bisect
import operator
import os
import sys
from collections import namedtuple

from rushlight.profiler import SEPARATOR
from rushlight.profiler.events import DeviceType, EventList, FunctionEvent, Kernel
from rushlight.profiler.flops import count_flops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Kinds of events, as the core numbers them (src/core/observer.h).
(OP, KERNEL, VISIT, APPLY, PART, FUNCTION, MODULE, SPAN, BACKWARD, ALLOCATION, EXTERNAL,
 CALL) = range(12)  # fmt: skip

Raw: Any = namedtuple(
    "Raw",
    "kind name start end thread sequence memory bytes depth in_backward where inputs results stack"
    " module device stream",
)

# What a GPU did: times in nanoseconds, that of the launch and the thread that launched it.
OnGpu: Any = namedtuple("OnGpu", "name start end launched thread device stream")
_MEMORY = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}

_CATEGORIES = {OP: "cpu_op", VISIT: "cpu_op", APPLY: "cpu_op", FUNCTION: "cpu_op",
               BACKWARD: "cpu_op", MODULE: "python_function", SPAN: "user_annotation",
               EXTERNAL: "kernel", CALL: "python_function"}  # fmt: skip


def _is_list_of_tensors(argument):
    return isinstance(argument, list) and any(isinstance(a, tuple) for a in argument)


def _shape(argument):
    """The shape of an argument as events give it: [] for what is no tensor."""
    if isinstance(argument, tuple):
        return argument[1]
    return [_shape(a) for a in argument] if _is_list_of_tensors(argument) else []


def _concrete(argument):
    """A number, or a list of them, that an op was called with; None for tensors."""
    tensors = isinstance(argument, tuple) or _is_list_of_tensors(argument)
    return None if tensors else argument


# As torch names them: C++ types.
_DTYPES = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int",
           "int16": "short int", "int8": "signed char", "uint8": "unsigned char", "bool": "bool",
           "float16": "c10::Half", "bfloat16": "c10::BFloat16",
           "complex64": "c10::complex<float>", "complex128": "c10::complex<double>"}  # fmt: skip


def _strides(argument):
    """The strides of an argument, as `_shape` gives its sizes."""
    if isinstance(argument, tuple):
        return argument[2]
    return [_strides(a) for a in argument] if _is_list_of_tensors(argument) else []


def _dtype(argument):
    """What an argument is: a tensor's dtype, or the kind of another value."""
    if isinstance(argument, tuple):
        return _DTYPES.get(argument[0], argument[0])
    if _is_list_of_tensors(argument):
        return "TensorList"
    if isinstance(argument, list):
        return "ScalarList"
    return "" if argument is None else "Scalar"


def _source(where):
    file, line, function = where
    return f"{file}({line}): {function}"


class _ShortPaths:
    """Files of the program by their path below the folder that they were imported from."""

    def __init__(self):
        folders = {os.path.join(os.path.abspath(folder), "") for folder in sys.path}
        self._folders = sorted(folders, key=len, reverse=True)
        self._known = {}

    def __call__(self, path):
        if path not in self._known:
            below = (f for f in self._folders if path.startswith(f))
            self._known[path] = path.removeprefix(next(below, ""))
        return self._known[path]


class Recording:
    """A profile's events.

    Args:
        raw: what `_C._profiler_stop` has returned.
        on_gpus: what `_C._cuda.timeline_stop` has returned.
        start, end: when the profile began and ended, in nanoseconds.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: what events show.
    """

    raw: Any
    start: Any
    end: Any
    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool
    links: Any

    def __init__(
        self,
        raw: Any,
        start: Any,
        end: Any,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        on_gpus: Any = (),
    ) -> None:  # fmt: skip
        self.on_gpus: list[Any] = [OnGpu(*r) for r in on_gpus]
        self.raw, self.start, self.end = [Raw(*r) for r in raw], start, end
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self._events = None
        self._short = _ShortPaths()

    @property
    def allocations(self) -> Any:
        """The events that say which storage got or gave back how many bytes, in order of time."""
        return sorted((r for r in self.raw if r.kind == ALLOCATION), key=lambda r: r.start)

    @property
    def kernels(self) -> Any:
        """Launches of kernels and the parts that other threads did of them."""
        return [r for r in self.raw if r.kind in (KERNEL, PART)]

    def with_all(self) -> Any:
        """The same recording with shapes and floating-point operations in its events."""
        if self.with_flops:
            return self
        other = Recording((), self.start, self.end, True, self.profile_memory, self.with_stack,
                          True, self.with_modules)  # fmt: skip
        other.raw, other.on_gpus = self.raw, self.on_gpus
        return other

    def events(self) -> Any:
        """The events as an EventList, in the order of their starts."""
        if self._events is None:
            self._events = self._build()
        return self._events

    def _event(self, raw, thread):
        name = f"aten::{raw.name}" if raw.kind == OP else raw.name
        if raw.kind == MODULE:
            name = f"nn.Module: {raw.name}"
        is_call = raw.kind == CALL
        if is_call and raw.where:
            file, line, function = raw.where
            name = _source((self._short(file), line, function))
        inputs = raw.inputs or ()
        if raw.kind == SPAN and SEPARATOR in name:
            name, _, words = name.partition(SEPARATOR)
            inputs = [words]
        sources = raw.stack or ([raw.where] if raw.where and not is_call else [])
        elsewhere = raw.kind == EXTERNAL and raw.device >= 0
        shown = inputs if self.record_shapes else ()
        event = FunctionEvent(
            0, name, thread, (raw.start - self.start) / 1000, (raw.end - self.start) / 1000,
            overload_name="", input_shapes=[_shape(a) for a in shown],
            concrete_inputs=[_concrete(a) for a in shown], kwinputs={},
            structured_input_shapes=[_shape(a) for a in shown],
            structured_input_strides=[_strides(a) for a in shown],
            input_dtypes=[_dtype(a) for a in shown],
            stack=[_source(s) for s in sources] if self.with_stack else [],
            scope={SPAN: 7, APPLY: 1, VISIT: 1}.get(raw.kind, 0),
            cpu_memory_usage=raw.memory if self.profile_memory else 0,
            sequence_nr=raw.sequence,
            device_type=DeviceType.CUDA if elsewhere else DeviceType.CPU,
            use_device="cuda" if elsewhere else None,
            device_index=raw.device if elsewhere else 0,
            device_resource_id=raw.stream if elsewhere else raw.thread,
            is_user_annotation=raw.kind == SPAN,
            is_python_function=raw.kind in (MODULE, CALL),
            activity_type=_CATEGORIES[raw.kind], trace_name=name,
        )  # fmt: skip
        if raw.kind == SPAN and name.startswith("ProfilerStep#"):
            event.name = "ProfilerStep*"
        event.where = sources[0] if sources else None
        event.module, event.in_backward = raw.module, raw.in_backward
        return event

    def _build(self):
        threads, events, pairs = {}, [], []
        ordered = sorted(self.raw, key=lambda r: (r.thread, r.start, -r.end))
        first = {}
        for raw in self.raw:
            first[raw.thread] = min(first.get(raw.thread, raw.start), raw.start)
        for thread in sorted(first, key=first.get):
            threads[thread] = len(threads) + 1
        open_events, thread = [], None
        for raw in ordered:
            if raw.kind in (ALLOCATION, PART):
                continue
            if raw.thread != thread:
                thread, open_events = raw.thread, []
            while open_events and open_events[-1][0] <= raw.start:
                open_events.pop()
            outer = open_events[-1][1] if open_events else None
            if raw.kind == KERNEL:
                if outer is not None:
                    took = (raw.end - raw.start) / 1000
                    outer.kernels.append(Kernel(raw.name, -1, took, raw.bytes))
                continue
            event = self._event(raw, threads[thread])
            if raw.kind == EXTERNAL:
                events.append(event)
                continue
            if outer is not None:
                event.cpu_parent, event.depth = outer, outer.depth + 1
                outer.cpu_children.append(event)
                if event.where is None and not event.in_backward and not event.is_python_function:
                    event.where, event.module = outer.where, event.module or outer.module
                    if self.with_stack and not event.stack:
                        event.stack = outer.stack
            open_events.append((raw.end, event))
            events.append(event)
            pairs.append((raw, event))
        self._link(pairs)
        events += self._add_gpus(pairs, threads)
        if self.with_flops:
            count_flops(pairs)
        events.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
        for number, event in enumerate(events):
            event.id = event.external_id = number + 1
        _number_calls(events)
        return EventList(
            events,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
            recording=self,
        )

    def _add_gpus(self, pairs, threads):
        """The events of GPUs; each counts as a kernel of the innermost event that launched it."""
        self.launches: list[tuple[Any, Any]] = []  # (what a GPU did, its event)
        of_threads: dict[int, list[Any]] = {}
        for raw, event in pairs:  # in the order of their starts, on each thread
            of_threads.setdefault(raw.thread, []).append((raw.start, event))
        for number, raw in enumerate(self.on_gpus):
            start, end = (raw.start - self.start) / 1000, (raw.end - self.start) / 1000
            event = FunctionEvent(
                0, raw.name, threads.get(raw.thread, 0), start, end, overload_name="",
                input_shapes=[], concrete_inputs=[], kwinputs={}, stack=[], trace_name=raw.name,
                structured_input_shapes=[], structured_input_strides=[], input_dtypes=[],
                device_type=DeviceType.CUDA, use_device="cuda", device_index=raw.device,
                device_resource_id=raw.stream, linked_correlation_id=number + 1,
                activity_type=_MEMORY.get(raw.name.partition(" ")[0], "kernel"),
            )  # fmt: skip
            event.where, event.module, event.in_backward = None, None, False
            self.launches.append((raw, event))
            owner = self._at(of_threads.get(raw.thread, []), raw.launched)
            if owner is not None:
                event.where, event.module = owner.where, owner.module
                event.in_backward = owner.in_backward
                owner.kernels.append(Kernel(raw.name, raw.device, end - start))
        return [event for _, event in self.launches]

    def _at(self, starts, time):
        """The innermost event that ran at a time, of a list of (start, event) in order."""
        place = bisect.bisect_right(starts, time, key=operator.itemgetter(0))
        event = starts[place - 1][1] if place else None
        while event is not None and event.time_range.end * 1000 + self.start < time:
            event = event.cpu_parent
        return event

    def _link(self, pairs):
        """Give nodes of the graph the forward op that recorded them, and its line."""
        self.links = []  # (forward event, event of the node)
        recorded = {}
        for raw, event in pairs:
            if raw.kind in (OP, FUNCTION) and raw.sequence >= 0 and not raw.in_backward:
                recorded[raw.sequence] = event  # the latest: an op inside of the outer one
        for raw, event in pairs:
            if raw.kind not in (VISIT, APPLY) or raw.sequence < 0:
                continue
            forward = recorded.get(raw.sequence)
            if forward is None:
                continue
            event.fwd_thread = forward.thread
            event.where, event.module = forward.where, forward.module
            if raw.kind == VISIT:
                self.links.append((forward, event))
            if self.with_stack:
                event.stack = forward.stack
        for _, event in pairs:  # and to what runs inside of nodes
            outer = event.cpu_parent
            if event.in_backward and event.where is None and outer is not None:
                event.where, event.module = outer.where, outer.module
                if self.with_stack and not event.stack:
                    event.stack = outer.stack


def _number_calls(events):
    """Number calls by Python, and let each know the one that it was called by."""
    number, modules = 0, {}
    for event in events:
        if not event.is_python_function:
            continue
        number += 1
        event.python_id = number
        outer = event.cpu_parent
        while outer is not None and not outer.is_python_function:
            outer = outer.cpu_parent
        event.python_parent_id = -1 if outer is None else outer.python_id
        if event.name.startswith("nn.Module: "):
            event.python_module_id = modules.setdefault(event.name, len(modules))
