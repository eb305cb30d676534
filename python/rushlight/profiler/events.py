"""What a profile holds: events in time, and their sums by name."""

import json
import os
from collections import defaultdict


class FunctionEvent:
    """One call: its name, when it began and ended (microseconds), and how long it ran itself."""

    def __init__(self, name, thread, start, end, own, depth, input_shapes=None):
        self.name, self.thread, self.depth = name, thread, depth
        self.start, self.end = start / 1000, end / 1000
        self.cpu_time_total, self.self_cpu_time_total = self.end - self.start, own / 1000
        self.cpu_time, self.count, self.input_shapes = self.cpu_time_total, 1, input_shapes
        self.device_time_total = self.self_device_time_total = self.cuda_time_total = 0.0

    @property
    def key(self):
        """The name, by which events are summed up."""
        return self.name

    def __repr__(self):
        return (
            f"<FunctionEvent name={self.name} cpu_time={self.cpu_time_total:.3f}us "
            f"input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg:
    """Calls of one name: how many, and their times together (microseconds)."""

    def __init__(self, key, input_shapes=None):
        self.key, self.input_shapes = key, input_shapes
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0.0, 0.0
        self.device_time_total = self.self_device_time_total = self.cuda_time_total = 0.0

    @property
    def cpu_time(self):
        """The mean time of a call."""
        return self.cpu_time_total / self.count

    def add(self, event):
        """Take an event in."""
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total

    def __repr__(self):
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={_time(self.self_cpu_time_total)} "
            f"cpu_time={_time(self.cpu_time)} count={self.count}>"
        )


class EventList(list):
    """Events, or their sums by name."""

    @property
    def self_cpu_time_total(self):
        """The time of all."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0):
        """Sum the events up by name, or by name and shapes."""
        groups = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else None
            key = event.name, str(shapes)
            groups.setdefault(key, FunctionEventAvg(event.name, shapes)).add(event)
        return EventList(groups.values())

    def total_average(self):
        """The sum of all."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.self_cpu_time_total += event.self_cpu_time_total
        total.cpu_time_total = total.self_cpu_time_total
        return total

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        header=None,
        **options,
    ):
        """The events as a table.

        Args:
            sort_by: "cpu_time", "cpu_time_total", "self_cpu_time_total" or "count"; what is about
                other devices sorts by the time of the CPU.
            row_limit: at most so many rows; -1 for all.
        """
        rows = list(self)
        if sort_by is not None:
            name = (
                sort_by.replace("cuda", "cpu")
                .replace("device", "cpu")
                .replace("memory_usage", "time_total")
            )
            if name not in ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count"):
                raise ValueError(f"table: cannot sort by {sort_by!r}")
            rows.sort(key=lambda event: getattr(event, name), reverse=True)
        total = self.self_cpu_time_total or 1.0
        shapes = any(event.input_shapes for event in rows)
        titles = [
            "Name",
            "Self CPU %",
            "Self CPU",
            "CPU total %",
            "CPU total",
            "CPU time avg",
            "# of Calls",
        ]
        lines = [titles + (["Input Shapes"] if shapes else [])]
        for event in rows[: row_limit if row_limit >= 0 else None]:
            line = [
                event.key[:max_name_column_width],
                f"{100 * event.self_cpu_time_total / total:.2f}%", _time(event.self_cpu_time_total),
                f"{100 * event.cpu_time_total / total:.2f}%", _time(event.cpu_time_total),
                _time(event.cpu_time),
                str(event.count),
            ]  # fmt: skip
            lines.append(line + ([str(event.input_shapes or "")] if shapes else []))
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        rule = "  ".join("-" * width for width in widths)
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        parts = [*([header] if header else []), rule, text[0], rule, *text[1:], rule]
        return "\n".join([*parts, f"Self CPU time total: {_time(self.self_cpu_time_total)}", ""])

    def export_chrome_trace(self, path):
        """Write the events for chrome://tracing or Perfetto."""
        process = os.getpid()
        events = [
            {
                "name": event.name, "ph": "X", "cat": "cpu_op", "ts": event.start,
                "dur": event.cpu_time_total, "pid": process,
                "tid": event.thread,
                "args": {"Input Dims": event.input_shapes} if event.input_shapes else {},
            }
            for event in self
        ]  # fmt: skip
        with open(path, "w") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write the time of each name, as flame graph tools read it."""
        times = defaultdict(float)
        for event in self:
            times[event.key] += event.self_cpu_time_total
        with open(path, "w") as file:
            file.writelines(f"{name} {round(time)}\n" for name, time in times.items())

    def __str__(self):
        return self.table()


def _time(microseconds):
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"
