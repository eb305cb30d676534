"""Pictures of a profile as pages that need nothing else: a flame graph and a memory timeline."""

from __future__ import annotations

import html

from rushlight.profiler.events import format_memory, format_time
from rushlight.profiler.memory_timeline import CATEGORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

_STYLE = """
body { font: 13px sans-serif; margin: 16px; color: #222; background: #fff }
h1 { font-size: 16px } svg { width: 100%; display: block } text { pointer-events: none }
rect.f { stroke: #fff; stroke-width: .5; cursor: pointer } rect.f:hover { stroke: #000 }
#tell { height: 1.4em; font-family: monospace } .key { margin-right: 14px; white-space: nowrap }
.key i { display: inline-block; width: 10px; height: 10px; margin-right: 4px }
"""
_COLOURS = ("#4e79a7", "#9c755f", "#76b7b2", "#bab0ac", "#59a14f", "#e15759", "#edc948", "#b07aa1")


class Page:
    """A picture: `save(path)` writes it as an HTML file, a notebook shows it.

    Attributes:
        title: of the page.
        body: what it shows, as HTML.
    """

    def __init__(self, title: str, body: str) -> None:
        self.title = title
        self.body = body

    def __str__(self) -> str:
        return (
            f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{html.escape(self.title)}'
            f"</title><style>{_STYLE}</style></head><body><h1>{html.escape(self.title)}</h1>"
            f"{self.body}</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an HTML file that loads nothing else."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(self))

    def _repr_html_(self):
        return f"<style>{_STYLE}</style>{self.body}"


class _Frame:
    """Events of one name inside the same events: their time together."""

    def __init__(self, name: str) -> None:
        self.name, self.time, self.count, self.inside = name, 0.0, 0, {}

    def add(self, event: Any) -> None:
        frame = self.inside.setdefault(event.name, _Frame(event.name))
        frame.time += event.cpu_time_total
        frame.count += 1
        for child in event.cpu_children:
            frame.add(child)
        for kernel in event.kernels:
            name = f"kernel {kernel.name}"
            inner = frame.inside.setdefault(name, _Frame(name))
            inner.time += kernel.duration
            inner.count += 1


def _colour(name):
    if name.startswith("kernel "):
        return "#59a14f"
    if name.startswith(("autograd::", "torch::autograd")) or name.endswith("Backward0"):
        return "#e15759"
    if name.startswith("aten::"):
        return "#f28e2b"
    return "#4e79a7"


def flame_page(events: Any) -> Any:
    """The flame graph of events: each bar is as wide as its time, and stands on what called it."""
    root = _Frame("all")
    for event in events:
        if event.cpu_parent is None:
            root.add(event)
    root.time = sum(frame.time for frame in root.inside.values())
    row, width = 18, 1200.0
    shapes, deepest = [], 0
    pending = [(root, 0.0, 0)]
    while pending:
        frame, left, depth = pending.pop()
        wide = width * frame.time / root.time if root.time else width
        if wide < 0.3:
            continue
        deepest = max(deepest, depth)
        share = 100 * frame.time / root.time if root.time else 0.0
        told = f"{frame.name}: {format_time(frame.time)}, {share:.1f}%, {frame.count} times"
        shapes.append(
            f'<rect class="f" x="{left:.2f}" y="{depth * row}" width="{wide:.2f}" '
            f'height="{row - 1}" fill="{_colour(frame.name)}"><title>{html.escape(told)}</title>'
            "</rect>"
        )
        shown = frame.name[: int(wide / 7)]
        if len(shown) > 2:
            shapes.append(
                f'<text x="{left + 3:.2f}" y="{depth * row + 13}" font-size="11" fill="#fff">'
                f"{html.escape(shown)}</text>"
            )
        for inner in sorted(frame.inside.values(), key=lambda f: -f.time):
            pending.append((inner, left, depth + 1))
            left += width * inner.time / root.time if root.time else 0.0
    height = (deepest + 1) * row
    return Page(
        "Flame graph",
        f'<svg viewBox="0 0 {width:.0f} {height}" font-family="monospace">{"".join(shapes)}</svg>',
    )


def memory_page(timeline: Any) -> Any:
    """The bytes of each category over time, one above the other."""
    times, sizes = timeline
    width, height = 1200.0, 360.0
    span = max(times[-1] - times[0], 1)
    peak = max((sum(s) for s in sizes), default=0) or 1
    step = max(1, len(times) // 3000)  # no screen shows more
    # Of those left out the largest is what counts.
    chosen = []
    for at in range(0, len(times), step):
        largest = max(range(at, min(at + step, len(times))), key=lambda i: sum(sizes[i]))
        chosen.append(largest)
    shapes, below = [], [0.0] * len(chosen)
    for place in range(len(CATEGORIES)):
        above = [b + sizes[i][place] for b, i in zip(below, chosen)]
        if above != below:

            def points(values):
                return [
                    f"{width * (times[i] - times[0]) / span:.1f},{height * (1 - v / peak):.1f}"
                    for i, v in zip(chosen, values)
                ]

            outline = " ".join(points(above) + points(below)[::-1])
            shapes.append(
                f'<polygon points="{outline}" fill="{_COLOURS[place]}">'
                f"<title>{CATEGORIES[place]}</title></polygon>"
            )
        below = above
    keys = "".join(
        f'<span class="key"><i style="background:{_COLOURS[k]}"></i>{name}</span>'
        for k, name in enumerate(CATEGORIES)
    )
    return Page(
        "Memory of tensors",
        f"<p>At most {format_memory(peak)} within {format_time(span / 1000)}.</p>"
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}">{"".join(shapes)}</svg><p>{keys}</p>',
    )
