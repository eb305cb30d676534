"""Where the time of a program went, and what would pay: what `profile.report()` returns."""

from __future__ import annotations

import functools
import time
from collections import namedtuple

import rushlight
from rushlight.profiler.events import format_time
from rushlight.profiler.recording import KERNEL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Limits: Any = namedtuple("Limits", "bandwidth flops")
Limits.__doc__ = "What the machine can do: bytes a second of memory, floating-point operations."

Change: Any = namedtuple("Change", "saves text")
Change.__doc__ = "A change of the program: microseconds that it would save at most, and what it is."

_WAITING = "enumerate(DataLoader)#"
_COPIES = frozenset(
    "copy conj_copy copy_ clone contiguous to _to_copy cat stack index_select gather".split()
)
PARTS = ("Python", "dispatch", "kernels", "copies", "waiting for data")


@functools.cache
def machine_limits(threads: Any = None) -> Any:
    """Measure what this machine can do with so many threads, once: half a second.

    Args:
        threads: None for as many as operations use now.

    Returns:
        Limits: bandwidth of a copy in memory that no cache holds, and float32 operations of a
        product of large matrices.
    """
    if threads is not None and threads != rushlight.get_num_threads():
        before = rushlight.get_num_threads()
        rushlight.set_num_threads(threads)
        try:
            return machine_limits(None)
        finally:
            rushlight.set_num_threads(before)
    with rushlight.no_grad():
        source = rushlight.ones(16 << 20)
        target = rushlight.empty_like(source)
        bandwidth = 2 * source.numel() * 4 / _best(lambda: target.copy_(source))
        matrix = rushlight.ones(1024, 1024)
        flops = 2 * 1024**3 / _best(lambda: matrix @ matrix)
    return Limits(bandwidth, flops)


def _best(function, tries=5):
    function()
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


class KernelUse:
    """The launches of one kernel: how often, how long, and beside what the machine can do.

    Attributes:
        name, count, time: microseconds in all.
        bytes, flops: in all; flops as the op's shapes tell, 0 where they do not.
        limit: microseconds that they would take at the measured bandwidth and peak.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.count: int = 0
        self.time: float = 0.0
        self.bytes: int = 0
        self.flops: float = 0
        self.limit: float = 0.0

    @property
    def share_of_limit(self) -> Any:
        """1 where nothing could be faster, 0.1 where it takes ten times as long as it must."""
        return self.limit / self.time if self.time else 0.0

    def __repr__(self) -> str:
        return (
            f"KernelUse({self.name}, count={self.count}, time={format_time(self.time)}, "
            f"{100 * self.share_of_limit:.0f}% of the limit)"
        )


class Report:
    """Where the time of a profile went.

    Attributes:
        wall: microseconds of the steps that were watched, or of the whole profile without steps.
        covered: microseconds of these in which some event ran, the marks of steps left out.
        parts: microseconds by part: Python, dispatch, kernels, copies, waiting for data. They add
            up to `wall`.
        functions: (name, microseconds) of functions of Python without what they called, the longest
            first; none unless the profile was made with_stack=True.
        kernels: a KernelUse for each kernel, those that take most time first.
        changes: the Changes that would save most, at most three.
        limits: what the machine can do.
    """

    def __init__(self, recording: Any, limits: Any = None) -> None:
        self._recording = recording
        self.limits: Any = machine_limits() if limits is None else limits
        events = recording.events()
        self._main = self._main_thread(events)
        main = [e for e in events if e.device_resource_id == self._main]
        steps = [e for e in main if e.trace_name.startswith("ProfilerStep#")]
        self.steps: int = len(steps)
        self._last = max((e.time_range.end for e in main), default=0.0)
        spans = [(e.time_range.start, e.time_range.end) for e in steps]
        whole = (0.0, (recording.end - recording.start) / 1000)
        self._spans = spans or [whole]
        self.wall: Any = sum(end - start for start, end in self._spans)
        self.covered: Any = self._length(
            (e.time_range.start, e.time_range.end) for e in main if self._tells_of_a_step(e)
        )
        self._events = main
        self.parts: Any = self._divide(main)
        self.functions: list[tuple[str, float]] = self._functions(main)
        self.kernels: Any = self._kernels(events)
        self.changes: Any = self._changes(events)[:3]

    def _main_thread(self, events):
        """The thread that steps were marked on, or that most events ran on."""
        count = {}
        for event in events:
            weight = 1e9 if event.trace_name.startswith("ProfilerStep#") else 1
            thread = event.device_resource_id
            count[thread] = count.get(thread, 0) + weight
        return max(count, key=count.get, default=0)

    def _tells_of_a_step(self, event):
        """Has it begun in a step, and is it more than the step's own mark? Functions of Python that
        were under way when the profile or the step began say nothing of it."""
        if event.trace_name.startswith("ProfilerStep#"):
            return False
        if event.is_python_function and event.time_range.end >= self._last:
            return False
        return any(start <= event.time_range.start < end for start, end in self._spans)

    def _length(self, intervals):
        """Microseconds of the steps that some interval covers."""
        total, at = 0.0, float("-inf")
        for start, end in sorted(intervals):
            start = max(start, at)
            if end <= start:
                continue
            total += sum(max(0.0, min(end, b) - max(start, a)) for a, b in self._spans)
            at = end
        return total

    def _divide(self, main):
        def intervals(events):
            return [(e.time_range.start, e.time_range.end) for e in events]

        base = self._recording.start
        kernels, copies = [], []
        for raw in self._recording.raw:
            if raw.kind == KERNEL and raw.thread == self._main:
                place = ((raw.start - base) / 1000, (raw.end - base) / 1000)
                (copies if raw.name in _COPIES else kernels).append(place)
        waiting = self._length(intervals(e for e in main if e.name.startswith(_WAITING)))
        reading = [e for e in main if e.name.startswith(_WAITING)]
        in_reading = [
            k for k in kernels + copies
            if any(e.time_range.start <= k[0] < e.time_range.end for e in reading)
        ]  # fmt: skip
        out = set(in_reading)
        kernel_time = self._length(k for k in kernels if k not in out)
        copy_time = self._length(k for k in kernels + copies if k not in out) - kernel_time
        native = [
            e for e in main
            if e.activity_type == "cpu_op"
            and not any(e.time_range.start >= r.time_range.start
                        and e.time_range.end <= r.time_range.end for r in reading)
        ]  # fmt: skip
        computing = [k for k in kernels + copies if k not in out]
        dispatch = self._length(intervals(native) + computing) - self._length(computing)
        python = max(0.0, self.wall - waiting - kernel_time - copy_time - dispatch)
        return dict(zip(PARTS, (python, dispatch, kernel_time, copy_time, waiting)))

    def _functions(self, main):
        times = {}
        for event in main:
            if event.activity_type == "python_function" and self._tells_of_a_step(event):
                times[event.name] = times.get(event.name, 0.0) + event.self_cpu_time_total
        return sorted(times.items(), key=lambda pair: -pair[1])

    def _kernels(self, events):
        uses = {}
        for event in events:
            if not event.kernels:
                continue
            longest = max(event.kernels, key=lambda k: k.duration)
            for kernel in event.kernels:
                use = uses.setdefault(kernel.name, KernelUse(kernel.name))
                use.count += 1
                use.time += kernel.duration
                use.bytes += kernel.bytes
                flops = (event.flops or 0) if kernel is longest else 0
                use.flops += flops
                use.limit += 1e6 * max(
                    kernel.bytes / self.limits.bandwidth, flops / self.limits.flops
                )
        return sorted(uses.values(), key=lambda use: -use.time)

    def _changes(self, events):
        changes, parts = [], self.parts
        step = "" if not self.steps else " in all steps"
        if parts["waiting for data"] > 0.02 * self.wall:
            changes.append(
                Change(
                    parts["waiting for data"],
                    "read data beside the computation: DataLoader(num_workers=...) or a larger "
                    f"prefetch_factor; {format_time(parts['waiting for data'])} were waited{step}",
                )
            )
        small = [e for e in events if e.activity_type == "cpu_op" and not e.cpu_children]
        count = len(small)
        overhead = parts["Python"] + parts["dispatch"]
        if count and overhead > 0.1 * self.wall:
            changes.append(
                Change(
                    overhead / 2,
                    f"do more in each op: {count} ops took {format_time(overhead)} around their "
                    "kernels; a batch of twice the size, or one op on stacked tensors in place of "
                    "a loop over small ones, halves that",
                )
            )
        if parts["copies"] > 0.05 * self.wall:
            places = self._places(events, lambda e: any(k.name in _COPIES for k in e.kernels))
            changes.append(
                Change(parts["copies"], f"avoid copies: {format_time(parts['copies'])}{places}")
            )
        for use in self.kernels[:5]:
            lost = use.time - use.limit
            # Whose operations are not known may be as fast as it can be.
            known = use.flops or use.share_of_limit > 0.05
            if known and lost > 0.05 * self.wall:
                places = self._places(
                    events, lambda e, n=use.name: any(k.name == n for k in e.kernels)
                )
                per_call = use.bytes / use.count
                reason = (
                    "its tensors are small: larger ones come nearer to the limit"
                    if per_call < 1 << 16
                    else "look at its shapes and strides"
                )
                changes.append(
                    Change(
                        lost,
                        f"{use.name} runs at {100 * use.share_of_limit:.0f}% of what the machine "
                        f"can do: {reason}{places}",
                    )
                )
        return sorted(changes, key=lambda change: -change.saves)

    def _places(self, events, chosen):
        """The lines of the program that took most time of the chosen events."""
        lines = {}
        for event in events:
            if event.where and chosen(event):
                key = "{}:{}".format(*event.where)
                lines[key] = lines.get(key, 0.0) + sum(k.duration for k in event.kernels)
        top = sorted(lines, key=lines.get, reverse=True)[:2]
        return f" (most at {', '.join(top)})" if top else ""

    def __str__(self) -> str:
        lines = []
        steps = f" in {self.steps} steps" if self.steps else ""
        lines.append(
            f"{format_time(self.wall)}{steps}; events cover {100 * self.covered / self.wall:.1f}%"
            if self.wall
            else "nothing was recorded"
        )
        for name, took in self.parts.items():
            share = 100 * took / self.wall if self.wall else 0.0
            lines.append(f"  {name:<17}{format_time(took):>12}{share:7.1f}%")
        if self.functions:
            lines.append("Functions of Python, without what they called:")
            lines += [f"  {name[-60:]:<60}{format_time(t):>12}" for name, t in self.functions[:5]]
        lines.append(
            f"Kernels, beside {self.limits.bandwidth / 1e9:.1f} GB/s and "
            f"{self.limits.flops / 1e9:.0f} GFLOP/s:"
        )
        for use in self.kernels[:10]:
            speed = f"{use.bytes / use.time / 1e3:.1f} GB/s" if use.time else "-"
            if use.flops and use.time:
                speed += f", {use.flops / use.time / 1e3:.1f} GFLOP/s"
            beside = f"{100 * use.share_of_limit:6.0f}% of the limit"
            if not use.flops and use.share_of_limit < 0.05:
                beside = "      ? of the limit"  # what it computes is not known
            lines.append(
                f"  {use.name[:28]:<28}{use.count:>8} x{format_time(use.time):>12}{beside}  {speed}"
            )
        if self.changes:
            lines.append("What would pay most:")
            for number, change in enumerate(self.changes, 1):
                lines.append(f"  {number}. up to {format_time(change.saves)}: {change.text}")
        return "\n".join(lines)

    __repr__ = __str__
