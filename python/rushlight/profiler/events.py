"""What a profile holds: events in time, and their sums by name."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from rushlight._enums import NativeEnum as _NativeEnum
from rushlight._ignored import warn_program as _warn_program
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from typing_extensions import Self

    from rushlight.types import Device


class DeviceType(_NativeEnum):
    """The kinds of devices that events name."""

    __module__ = "rushlight.autograd.profiler"  # where programs find it

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class Interval:
    """From when to when an event ran, in microseconds since the profile began."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start: float = start
        self.end: float = end

    def elapsed_us(self) -> float:
        """How long, in microseconds."""
        return self.end - self.start


class _Launch(NamedTuple):
    name: str
    device: Device
    duration: float


class Kernel(_Launch):
    """A launch of a kernel inside an event: its name, device, time (microseconds) and bytes.

    A tuple of the first three, as in torch.
    """

    bytes: int

    def __new__(cls, name: str, device: Device, duration: float, bytes: int = 0) -> Self:
        kernel = super().__new__(cls, name, device, duration)
        kernel.bytes = bytes
        return kernel


def _deprecated(name: str, instead: str, attribute: str | None = None) -> Any:
    """A property of an older name, which warns as torch's does."""

    def older(self):
        _warn_program(f"`{name}` is deprecated. Use `{instead}` instead.", FutureWarning)
        return getattr(self, attribute or instead)

    return property(older, doc=f"Deprecated: use `{instead}`.")


class _Times:
    """The times that events and sums of events share, and the texts that tables show of them."""

    @property
    def cpu_time(self) -> float:
        """The mean time of a call, in microseconds."""
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """The mean time on another device."""
        return 0.0 if self.count == 0 else self.device_time_total / self.count

    cuda_time: float = _deprecated("cuda_time", "device_time")

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with its unit."""
        return format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        """`device_time` with its unit."""
        return format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` with its unit."""
        return format_time(self.cpu_time_total)

    @property
    def device_time_total_str(self) -> str:
        """`device_time_total` with its unit."""
        return format_time(self.device_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` with its unit."""
        return format_time(self.self_cpu_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """`self_device_time_total` with its unit."""
        return format_time(self.self_device_time_total)


class FunctionEvent(_Times):
    """Something that ran: an op, a node of the graph, or a part of the program that it has marked.

    Args:
        id: its number in the profile.
        name: of the op, with "aten::" before it, or of the part; steps of a profile go by one.
        trace_name: the name that traces show, as "ProfilerStep#3".
        thread: the thread that ran it, from 1 on.
        start_us, end_us: when, in microseconds since the profile began.
        others: attributes of the same names.
    """

    id: int
    name: str
    thread: int
    fwd_thread: int | None
    kernels: list[Kernel]
    cpu_children: list[FunctionEvent]
    cpu_parent: FunctionEvent | None
    count: int
    input_shapes: Any
    concrete_inputs: Any
    kwinputs: Any
    stack: list[str] | None
    scope: int
    use_device: str | None
    device_type: Any
    device_index: int
    cpu_memory_usage: int
    device_memory_usage: int
    is_async: bool
    is_remote: bool
    is_legacy: bool
    sequence_nr: int
    node_id: int
    flops: int | None
    is_user_annotation: bool
    is_python_function: bool
    overload_name: str | None
    trace_name: str | None
    activity_type: Any
    event_metadata: Any
    structured_input_shapes: list[Any] | None
    structured_input_strides: list[Any] | None
    input_dtypes: list[str] | None
    python_id: int
    python_parent_id: int
    python_module_id: int
    flow_id: Any
    flow_type: Any
    flow_start: Any
    external_id: int
    linked_correlation_id: int
    module: Any
    depth: int
    where: Any
    in_backward: bool

    def __init__(
        self,
        id: Any,
        name: str,
        thread: Any,
        start_us: Any,
        end_us: Any,
        overload_name: Any = None,
        fwd_thread: Any = None,
        input_shapes: Any = None,
        stack: Any = None,
        scope: int = 0,
        use_device: Any = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: Any = None,
        is_legacy: bool = False,
        flops: Any = None,
        trace_name: Any = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: Any = None,
        metadata_json: Any = None,
        flow_id: Any = None,
        flow_type: Any = None,
        flow_start: Any = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: Any = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Any = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
    ) -> None:  # fmt: skip
        self.id, self.name, self.thread, self.fwd_thread = id, name, thread, fwd_thread
        self.overload_name, self.trace_name = overload_name, trace_name
        self.time_range: Any = Interval(start_us, end_us)
        self.kernels, self.cpu_children, self.cpu_parent, self.count = [], [], None, 1
        self.input_shapes, self.concrete_inputs = input_shapes, concrete_inputs
        self.kwinputs, self.stack, self.scope = kwinputs, stack, scope
        self.use_device, self.device_type, self.device_index = use_device, device_type, device_index
        self.device_resource_id: Any = thread if device_resource_id is None else device_resource_id
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.sequence_nr, self.node_id, self.flops = sequence_nr, node_id, flops
        self.is_user_annotation, self.is_python_function = is_user_annotation, is_python_function
        self.activity_type, self._metadata_json = activity_type, metadata_json
        self.flow_id, self.flow_type, self.flow_start = flow_id, flow_type, flow_start
        self.external_id, self.linked_correlation_id = external_id, linked_correlation_id
        self.event_metadata = extra_meta
        self.structured_input_shapes = structured_input_shapes
        self.structured_input_strides = structured_input_strides
        self.input_dtypes = input_dtypes
        self.python_id, self.python_parent_id = python_id, python_parent_id
        self.python_module_id = python_module_id
        self.self_cpu_percent = self.total_cpu_percent = self.total_device_percent = -1
        self.module, self.depth, self.where, self.in_backward = None, 0, None, False

    def _check_on_cpu(self, function, *others):
        for event in (self, *others):
            if not isinstance(event, FunctionEvent) or event.device_type != DeviceType.CPU:
                raise AssertionError(f"{function}: expected a FunctionEvent of the CPU")

    def append_kernel(self, name: str, device: Device, duration: Any, bytes: int = 0) -> None:
        """Say that it launched a kernel."""
        self._check_on_cpu("append_kernel")
        self.kernels.append(Kernel(name, device, duration, bytes))

    def append_cpu_child(self, child: Any) -> None:
        """Say that another event ran inside of it."""
        self._check_on_cpu("append_cpu_child", child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: Any) -> None:
        """Say inside of which event it ran."""
        self._check_on_cpu("set_cpu_parent", parent)
        self.cpu_parent = parent

    def _has_no_children(self):
        """Whether no time and memory are its own: it ran elsewhere, or on several threads."""
        return self.is_async or self.device_type != DeviceType.CPU

    @property
    def key(self) -> str:
        """The name, by which events are summed up."""
        return self.name

    @property
    def cpu_time_total(self) -> Any:
        """How long it ran, in microseconds; 0 on another device."""
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0.0

    @property
    def self_cpu_time_total(self) -> Any:
        """How long it ran without the events inside of it."""
        if self._has_no_children():
            return 0.0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> Any:
        """How long it ran on another device: of a kernel itself, or of those that it launched."""
        inside = sum(child.device_time_total for child in self.cpu_children)
        return self.self_device_time_total + inside

    @property
    def self_device_time_total(self) -> Any:
        """The same without the events inside of it."""
        if self.device_type != DeviceType.CPU:
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels if kernel.device >= 0)

    metadata_json: Any = _deprecated("metadata_json", "event_metadata", "_metadata_json")
    cuda_time_total: Any = _deprecated("cuda_time_total", "device_time_total")
    self_cuda_time_total: Any = _deprecated("self_cuda_time_total", "self_device_time_total")

    @property
    def self_cpu_memory_usage(self) -> Any:
        """Bytes that it kept without those of the events inside of it."""
        if self._has_no_children():
            return 0
        inside = sum(child.cpu_memory_usage for child in self.cpu_children)
        return self.cpu_memory_usage - inside

    @property
    def self_device_memory_usage(self) -> Any:
        """The same on another device."""
        if self._has_no_children():
            return 0
        inside = sum(child.device_memory_usage for child in self.cpu_children)
        return self.device_memory_usage - inside

    self_cuda_memory_usage: Any = _deprecated("self_cuda_memory_usage", "self_device_memory_usage")

    def __repr__(self) -> str:
        device = self.use_device
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} "
            f"{device}_time={self.device_time_str} name={self.name} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


class FunctionEventAvg(_Times):
    """Events of one name: how many, and their times together (microseconds)."""

    key: str | None
    count: int
    node_id: int
    use_device: str | None
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float
    input_shapes: Any
    overload_name: str | None
    stack: list[str] | None
    scope: int | None
    cpu_children: list[FunctionEvent] | None
    cpu_parent: FunctionEvent | None
    device_type: Any
    flops: int

    def __init__(self) -> None:
        self.key, self.count, self.node_id, self.use_device = None, 0, 0, None
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.is_python_function = False
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes = self.overload_name = self.stack = self.scope = None
        self.cpu_children = self.cpu_parent = None
        self.device_type, self.flops = DeviceType.CPU, 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> Self:
        """Take in an event, or another sum, of the same key.

        Raises:
            AssertionError: it is neither, or its key is another.
        """
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError(f"add: expected an event or a sum of events, got {type(other)}")
        if self.key is None:
            for name in ("key", "node_id", "is_async", "is_remote", "is_legacy", "use_device",
                         "is_user_annotation", "is_python_function", "overload_name", "stack",
                         "scope", "cpu_parent", "cpu_children", "device_type",
                         "input_shapes"):  # fmt: skip
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise AssertionError(f"add: expected events of key {self.key!r}, got {other.key!r}")
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "device_time_total",
                     "self_device_time_total", "cpu_memory_usage", "self_cpu_memory_usage",
                     "device_memory_usage", "self_device_memory_usage"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> Self:
        return self.add(other)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events in the order of their starts, or their sums by name."""

    def __init__(
        self,
        events: Any = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        recording: Any = None,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory, self._with_flops = profile_memory, with_flops
        self._recording = recording  # what a trace needs beside the events

    def _like(self, events):
        return EventList(
            events,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
            recording=self._recording,
        )

    @property
    def self_cpu_time_total(self) -> Any:
        """The time of all, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> Any:
        """The events summed up by name.

        Args:
            group_by_input_shapes: and by the shapes of their arguments.
            group_by_stack_n: and by so many lines of their stacks, the innermost first.
            group_by_overload_name: and by overload; those of one name are counted together here, as
                the table of operations has no names for them.
        """
        groups = {}
        for event in self:
            key = [event.key, event.node_id, event.device_type, event.is_legacy,
                   event.is_user_annotation]  # fmt: skip
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key.append(tuple((event.stack or ())[:group_by_stack_n]))
            groups.setdefault(tuple(key), FunctionEventAvg()).add(event)
        for total in groups.values():
            total.stack = (total.stack or [])[: max(group_by_stack_n, 0)]
            if not group_by_input_shapes:
                total.input_shapes = ""
            if not group_by_overload_name:
                total.overload_name = ""
        return self._like(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: Any = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a table.

        Args:
            sort_by: an attribute that counts or measures, such as "cpu_time_total",
                "self_cpu_time_total", "cpu_memory_usage" or "count", the largest first; without it
                rows stand in the order in which they began.
            row_limit: at most so many rows; -1 for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: where to cut the
                columns of source lines, names and shapes.
            header: a line above the table.
            top_level_events_only: leave out the events inside others.
            time_unit: "us", "ms" or "s"; by default what suits each time.

        Raises:
            AttributeError: there is nothing of that name to sort by.
            ValueError: there is no such unit.
        """
        from rushlight.profiler.table import write_table

        return write_table(
            self, sort_by, row_limit, max_src_column_width, max_name_column_width,
            max_shapes_column_width, header, top_level_events_only, time_unit,
            self._profile_memory, self._with_flops,
        )  # fmt: skip

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing or Perfetto."""
        from rushlight.profiler.trace import write_chrome_trace

        write_chrome_trace(path, self._recording, self)

    def supported_export_stacks_metrics(self) -> Any:
        """What `export_stacks` can weigh stacks by."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total",
                "self_privateuse1_time_total"]  # fmt: skip

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Write the time of each stack, as flame graph tools read it.

        Args:
            metric: "self_cpu_time_total", or that of another device, which is 0 here. Stacks that
                take less than a microsecond are left out.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"metric should be one of: {self.supported_export_stacks_metrics()}, not {metric!r}"
            )
        blank = str.maketrans(" ;\t\n", "____")
        name = "self_cpu_time_total" if "cpu" in metric else "self_device_time_total"
        times = defaultdict(float)
        for event in self:
            if event.stack:
                lines = [line.translate(blank) for line in reversed(event.stack)]
                times[";".join([*lines, event.key.translate(blank)])] += getattr(event, name)
        with open(path, "w") as file:
            for stack, time in times.items():
                if int(time) > 0:
                    file.write(f"{stack} {int(time)}\n")

    def __str__(self) -> str:
        return self.table()


_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def format_time(microseconds: Any, unit: Any = None) -> str:
    """A time with its unit: 3.500us, 1.250ms, 2.000s."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def format_memory(bytes: Any) -> str:
    """Bytes with their unit: 12 B, 1.50 KB."""
    for exponent, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if abs(bytes) >= 1 << exponent:
            return f"{bytes / (1 << exponent):.2f} {unit}"
    return f"{bytes} B"


def format_share(part: Any, whole: Any) -> Any:
    """A share of a time in percent."""
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


def walk(events: Any) -> Iterator[Any]:
    """The events and all inside of them, parents first."""
    pending = list(reversed(events))
    while pending:
        event = pending.pop()
        yield event
        pending.extend(reversed(event.cpu_children))


set_module(
    "rushlight.autograd.profiler_util", EventList, FunctionEvent, FunctionEventAvg, Interval, Kernel
)
