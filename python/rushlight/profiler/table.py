"""The table that a profile prints: columns, widths and sums are those of torch's."""

from __future__ import annotations

import math

from rushlight.profiler.events import DeviceType, format_memory, format_share, format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_GAP = 2
_WIDTH = 12
_UNITS = ("us", "ms", "s")


def _cut(text, width):
    return text if width is None or len(text) <= width else text[: max(width - 3, 0)] + "..."


def _sorted(events, sort_by):
    name = sort_by
    for device in ("cuda", "xpu", "privateuse1"):
        name = name.replace(device, "device")
    if any(not isinstance(getattr(e, name, None), (int, float)) for e in events):
        raise ValueError(f"table: cannot sort by {sort_by!r}: events have no such number")
    return sorted(events, key=lambda e: getattr(e, name), reverse=True)


def _flops_unit(events):
    largest = max((e.flops or 0 for e in events), default=0)
    if largest <= 0:
        return 1, ""
    step = min(max(int(math.log10(largest) // 3), 0), 5)
    return 10 ** (3 * step), ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")[step]


def write_table(
    events: Any,
    sort_by: Any,
    row_limit: Any,
    source_width: Any,
    name_width: Any,
    shapes_width: Any,
    header: Any,
    top_level_only: Any,
    unit: Any,
    with_memory: Any,
    with_flops: Any,
) -> Any:  # fmt: skip
    """The text of EventList.table."""
    if unit is not None and unit not in _UNITS:
        raise ValueError(f"table: the time unit must be us, ms or s, but is {unit!r}")
    if not events:
        return ""
    rows = list(events) if sort_by is None else _sorted(events, sort_by)
    total = sum(e.self_cpu_time_total for e in events)
    device_total = sum(e.self_device_time_total for e in events)
    elsewhere = any(e.device_type is not DeviceType.CPU for e in events)
    shapes = any(e.input_shapes for e in events)
    stacks = any(e.stack for e in events)
    flops_unit, flops_name = _flops_unit(events)

    def show(time):
        return format_time(time, unit)

    columns = [  # title, width, what a row shows
        ("Name", None, lambda e: _cut(e.key, name_width)),
        ("Self CPU %", _WIDTH, lambda e: format_share(e.self_cpu_time_total, total)),
        ("Self CPU", _WIDTH, lambda e: show(e.self_cpu_time_total)),
        ("CPU total %", _WIDTH, lambda e: format_share(e.cpu_time_total, total)),
        ("CPU total", _WIDTH, lambda e: show(e.cpu_time_total)),
        ("CPU time avg", _WIDTH, lambda e: show(e.cpu_time)),
    ]
    if elsewhere:
        columns += [
            ("Self CUDA", _WIDTH, lambda e: show(e.self_device_time_total)),
            ("Self CUDA %", _WIDTH, lambda e: format_share(e.self_device_time_total, device_total)),
            ("CUDA total", _WIDTH, lambda e: show(e.device_time_total)),
            ("CUDA time avg", 13, lambda e: show(e.device_time)),
        ]
    if with_memory:
        columns += [
            ("CPU Mem", _WIDTH, lambda e: format_memory(e.cpu_memory_usage)),
            ("Self CPU Mem", _WIDTH, lambda e: format_memory(e.self_cpu_memory_usage)),
        ]
    columns.append(("# of Calls", _WIDTH, lambda e: str(e.count)))
    if shapes:
        columns.append(("Input Shapes", None, lambda e: str(e.input_shapes or "")[:shapes_width]))
    if stacks:
        columns.append(("Source Location", None, lambda e: None))
    if with_flops and flops_name:
        columns.append(
            (f"Total {flops_name}", _WIDTH, lambda e: f"{e.flops / flops_unit:.3f}"
             if e.flops else "--")
        )  # fmt: skip

    def width_of(title, width):
        if width is not None:
            return max(width, len(title))
        if title == "Name":
            longest = max(len(e.key) for e in events) + 4
            return longest if name_width is None else min(longest, name_width)
        if title == "Input Shapes":
            longest = max(max(len(str(e.input_shapes or "")) for e in events) + 4, _WIDTH)
            return longest if shapes_width is None else max(min(longest, shapes_width), _WIDTH)
        longest = max((len(line) for e in events for line in e.stack or ()), default=0) + 4
        return longest if source_width is None else min(longest, source_width)

    widths = [width_of(title, width) for title, width, _ in columns]

    def line(cells):
        text = ""
        for cell, width, (title, _, _) in zip(cells, widths, columns):
            left = title == "Source Location"
            text += (cell.ljust(width) if left else cell.rjust(width)) + " " * _GAP
        return text

    rule = "".join("-" * width + " " * _GAP for width in widths)
    lines = []
    if header is not None:
        lines += ["=" * (len(rule) - _GAP), header]
    if top_level_only:
        lines += ["=" * (len(rule) - _GAP), "Only events that ran inside of no other are shown"]
    lines += [rule, line([title for title, _, _ in columns]), rule]
    shown = 0
    for event in rows:
        if top_level_only and event.cpu_parent is not None:
            continue
        if shown == row_limit:
            break
        shown += 1
        sources = [_source(s, source_width) for s in event.stack or ()]
        first = [
            (sources[0] if sources else "") if title == "Source Location" else value(event)
            for title, _, value in columns
        ]
        lines.append(line(first))
        for source in sources[1:]:
            lines.append(
                line([source if title == "Source Location" else "" for title, _, _ in columns])
            )
        if stacks:
            lines.append(line([""] * len(columns)))
    lines.append(rule)
    lines.append(f"Self CPU time total: {show(total)}")
    if elsewhere:
        lines.append(f"Self CUDA time total: {show(device_total)}")
    return "\n".join(lines) + "\n"


def _source(text, width):
    """The end of a line's place, which tells more than its beginning."""
    return text if width is None or len(text) <= width else "..." + text[3 - width :]
