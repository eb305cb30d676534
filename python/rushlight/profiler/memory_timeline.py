"""How much memory tensors held at what time, and for what."""

from __future__ import annotations

import gzip
import json
from collections import namedtuple

from rushlight.profiler.recording import BACKWARD, SPAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

# In the order in which torch's timelines list them.
CATEGORIES = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient",
              "autograd detail", "unknown")  # fmt: skip

_CREATE, _DESTROY = 2, 4  # as torch numbers what happens to memory

Timeline: Any = namedtuple("Timeline", "times sizes")
Timeline.__doc__ = "Nanoseconds, and for each of them the bytes of each of CATEGORIES."


def _intervals(recording, chosen):
    return [(r.start, r.end) for r in recording.raw if chosen(r)]


def _within(time, intervals):
    return any(start <= time <= end for start, end in intervals)


def _category(start, end, in_backward, backward, steps, loading, finish):
    """What a storage is for, by when it was made and given back."""
    if _within(start, steps):
        return "optimizer state" if end == finish else "temporary"
    if _within(start, loading):
        return "input"
    if in_backward or _within(start, backward):
        # What outlives the pass has become somebody's gradient.
        return "autograd detail" if _within(end, backward) else "gradient"
    if _within(end, backward):
        return "activation"
    return "unknown" if end == finish else "temporary"


def _changes(recording):
    """(nanoseconds, index of the category, bytes more or less) of storages, in order of time."""
    backward = _intervals(recording, lambda r: r.kind == BACKWARD)
    steps = _intervals(recording, lambda r: r.kind == SPAN and r.name.startswith("Optimizer.step#"))
    loading = _intervals(
        recording, lambda r: r.kind == SPAN and r.name.startswith("enumerate(DataLoader)#")
    )
    alive, changes = {}, []

    def finish(made, end):
        kind = _category(made.start, end, made.in_backward, backward, steps, loading, recording.end)
        place = CATEGORIES.index(kind)
        changes.append((made.start, place, made.memory))
        if end != recording.end:
            changes.append((end, place, -made.memory))

    for raw in recording.allocations:
        if raw.memory >= 0:
            alive[raw.bytes] = raw
        elif raw.bytes in alive:
            finish(alive.pop(raw.bytes), raw.start)
    for made in alive.values():
        finish(made, recording.end)
    return sorted(changes)


def memory_timeline(recording: Any) -> Any:
    """The bytes of tensors that were made while a profile was under way, by time and category."""
    times, sizes, now = [recording.start], [[0] * len(CATEGORIES)], [0] * len(CATEGORIES)
    for time, place, difference in _changes(recording):
        now[place] += difference
        times.append(time)
        sizes.append(list(now))
    times.append(recording.end)
    sizes.append(list(now))
    return Timeline(times, sizes)


def by_microseconds(recording: Any) -> tuple[list[int], list[list[int]]]:
    """The timeline as torch gives it: with zeros before the categories, for sums to begin at."""
    timeline = memory_timeline(recording)
    return [at // 1000 for at in timeline.times], [[0, *row] for row in timeline.sizes]


def _write_json(path, value):
    opened = gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")
    with opened as file:
        json.dump(value, file)


def export_memory_timeline(recording: Any, path: str | os.PathLike[str]) -> None:
    """Write the timeline.

    Args:
        path: .html for a page; .raw.json or .raw.json.gz for a list of [time, 2 where memory was
            got or 4 where it was given back, bytes more or less, index of the category]; anything
            else for [times, sizes].
    """
    path = str(path)
    if path.endswith((".raw.json", ".raw.json.gz")):
        _write_json(
            path,
            [[at, _CREATE if more >= 0 else _DESTROY, more, place]
             for at, place, more in _changes(recording)],
        )  # fmt: skip
        return
    if path.endswith(".html"):
        from rushlight.profiler.pages import memory_page

        memory_page(memory_timeline(recording)).save(path)
    else:
        _write_json(path, by_microseconds(recording))
