"""What was measured: the times of one statement, and what can be said of them."""

from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_SPREAD_TO_WARN_OF = 0.1  # of the median, between the quartiles


def select_unit(t: float) -> tuple[str, float]:
    """The (name, seconds) of the unit in which a time reads best."""
    return next((unit for unit in reversed(_UNITS) if t >= unit[1]), _UNITS[0])


def unit_to_english(u: str) -> str:
    """A unit's name in words."""
    return {
        "ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second",
    }[u]  # fmt: skip


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions, in the order in which they first came."""
    return list(dict.fromkeys(elements))


class set_torch_threads:
    """A context in which operations run on so many threads.

    Args:
        n: the number.
    """

    def __init__(self, n: int) -> None:
        self.count = n

    def __enter__(self) -> None:
        self.before: int = rushlight.get_num_threads()
        rushlight.set_num_threads(self.count)

    def __exit__(self, *error: object) -> None:
        rushlight.set_num_threads(self.before)


def trim_sigfig(x: float, n: int) -> float:
    """Round to n significant figures."""
    if x == 0:
        return x
    return round(x, n - 1 - math.floor(math.log10(abs(x))))


@dataclasses.dataclass(repr=False, frozen=True)
class TaskSpec:
    """What is measured: a statement and how results name it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        if self.label is None and "\n" in self.stmt:
            name = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{name}\n{textwrap.indent(self.stmt, '  ')}"
        title = self.stmt if self.label is None else self.label
        return f"{title}: {self.sub_label}" if self.sub_label else title

    def setup_str(self) -> str:
        """The code that runs before, as lines of a report show it; "" if there is none."""
        if not self.setup or self.setup == "pass":
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """The title, the description and the setup, one below the other."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts if part)


@dataclasses.dataclass(repr=False)
class Measurement:
    """Times of one statement.

    Args:
        number_per_run: how often the statement ran in each of the times.
        raw_times: seconds.
        task_spec: what was measured.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name != "task_spec" and hasattr(TaskSpec, "__dataclass_fields__"):
            if name in TaskSpec.__dataclass_fields__:
                return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def title(self) -> str:
        """The label, or the statement."""
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        """The environment in which it was measured, as the `Timer` was told."""
        return self.task_spec.env

    @property
    def times(self) -> list[float]:
        """Seconds that one run of the statement took, in each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def _quartiles(self):
        ordered = sorted(self.times)

        def at(part):
            place = part * (len(ordered) - 1)
            low = int(place)
            high = min(low + 1, len(ordered) - 1)
            return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

        return at(0.25), at(0.75)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles."""
        low, high = self._quartiles
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many figures the spread of the times leaves: one to three."""
        spread = self.iqr / math.sqrt(len(self.times)) * 1.645 / self.median
        return 3 if spread == 0 else min(max(int(-math.log10(spread)), 1), 3)

    @property
    def has_warnings(self) -> bool:
        """Is the spread of the times too wide to trust the median?"""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = _SPREAD_TO_WARN_OF) -> bool:
        """Is the distance between the quartiles below that part of the median?"""
        return self.iqr / self.median < threshold

    @property
    def as_row_name(self) -> str:
        """How a table's row of it is called."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        def shown(t):
            return f"{t / scale:.2f} {unit}"

        n, (unit, scale) = len(self.times), select_unit(self.median)
        lines = [super().__repr__(), self.title]
        if self.description:
            lines.append(self.description)
        if n == 1:
            lines.append(f"  {shown(self.median)}")
        else:
            low, high = (q / scale for q in self._quartiles)
            lines += [f"  Median: {shown(self.median)}",
                      f"  IQR:    {shown(self.iqr)} ({low:.2f} to {high:.2f})"]  # fmt: skip
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        per = "runs per measurement" if n > 1 else "runs"
        lines.append(
            f"  {n} measurement{'s' if n > 1 else ''}, {self.number_per_run} {per}, {threads}"
        )
        if n > 1 and self.has_warnings:
            lines.append("  WARNING: the times vary widely; the machine may be busy.")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, of all the times of it."""
        groups = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [Measurement(1, [t for m in group for t in m.times], spec)
                for spec, group in groups.items()]  # fmt: skip
