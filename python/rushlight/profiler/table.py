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
_SOURCE = "Source Location"
_OVERLOAD = "Overload Name"
_ONLY_TOP_LEVEL = "Only events that ran inside of no other are shown"


def _cut(text, width):
    """A name, cut where it would fill the column."""
    return text if width is None or len(text) < width - 3 else text[: width - 3] + "..."


def _sorted(events, sort_by):
    name = sort_by
    for device in ("cuda", "xpu", "privateuse1"):
        name = name.replace(device, "device")
    if any(not isinstance(getattr(e, name, None), (int, float)) for e in events):
        raise AttributeError(f"table: cannot sort by {sort_by!r}: events have no such number")
    return sorted(events, key=lambda e: getattr(e, name), reverse=True)


def _flops_unit(events):
    largest = max((e.flops or 0 for e in events), default=0)
    if largest <= 0:
        return 1, ""
    step = min(max(int(math.log10(largest) // 3), 0), 5)
    return 10 ** (3 * step), ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")[step]


def _columns(events, unit, name_width, shapes_width, with_memory, with_flops):
    """Title, width (None: as wide as the text) and what a row shows, of each column."""
    total = sum(e.self_cpu_time_total for e in events)
    flops_unit, flops_name = _flops_unit(events)

    def show(time):
        return format_time(time, unit)

    columns = [("Name", None, lambda e: _cut(e.key, name_width))]
    if any(e.overload_name for e in events):
        columns.append((_OVERLOAD, None, lambda e: _cut(e.overload_name or "", name_width)))
    columns += [
        (
            "Self CPU %",
            _WIDTH,
            lambda e: _note(e, "self_cpu_percent", format_share(e.self_cpu_time_total, total)),
        ),
        ("Self CPU", _WIDTH, lambda e: show(e.self_cpu_time_total)),
        (
            "CPU total %",
            _WIDTH,
            lambda e: _note(
                e, "total_cpu_percent", 0 if e.is_async else format_share(e.cpu_time_total, total)
            ),
        ),
        ("CPU total", _WIDTH, lambda e: show(e.cpu_time_total)),
        ("CPU time avg", _WIDTH, lambda e: show(e.cpu_time)),
    ]
    if _any_elsewhere(events):
        device_total, device = _device_total(events), _device_name(events)
        columns += [
            (f"Self {device}", _WIDTH, lambda e: show(e.self_device_time_total)),
            (
                f"Self {device} %",
                _WIDTH,
                lambda e: _note(
                    e, "total_device_percent", format_share(e.self_device_time_total, device_total)
                ),
            ),
            (f"{device} total", _WIDTH, lambda e: show(e.device_time_total)),
            (f"{device} time avg", _WIDTH, lambda e: show(e.device_time)),
        ]
    if with_memory:
        columns += [
            ("CPU Mem", _WIDTH, lambda e: format_memory(e.cpu_memory_usage)),
            ("Self CPU Mem", _WIDTH, lambda e: format_memory(e.self_cpu_memory_usage)),
        ]
        if any(e.self_device_memory_usage > 0 for e in events):
            device = _device_name(events)
            columns += [
                (f"{device} Mem", _WIDTH, lambda e: format_memory(e.device_memory_usage)),
                (f"Self {device} Mem", _WIDTH, lambda e: format_memory(e.self_device_memory_usage)),
            ]
    columns.append(("# of Calls", _WIDTH, lambda e: str(e.count)))
    if any(e.node_id != -1 for e in events):
        columns.append(("Node ID", _WIDTH, lambda e: str(e.node_id)))
    if any(e.input_shapes for e in events):
        columns.append(("Input Shapes", None, lambda e: str(e.input_shapes)[:shapes_width]))
    if any(e.stack for e in events):
        columns.append((_SOURCE, None, lambda e: None))  # one line of the table for each of its own
    if with_flops and flops_name:
        columns.append((
            f"Total {flops_name}", _WIDTH,
            lambda e: f"{e.flops / flops_unit:.3f}" if e.flops else "--",
        ))  # fmt: skip
    return columns


def _note(event, name, share):
    """A share of a time, which the event keeps once a table shows it, as torch's does."""
    setattr(event, name, share)
    return str(share)


def _any_elsewhere(events):
    """Did anything run on another device than the CPU?"""
    return any(e.self_device_time_total > 0 for e in events)


def _device_name(events):
    return next((e.use_device for e in events if e.use_device), "cuda").upper()


def _device_total(events):
    """The time of other devices, once: an op's own is that of the kernels that it launched."""
    return sum(e.self_device_time_total for e in events if e.device_type != DeviceType.CPU)


def _width(title, width, events, longest_allowed):
    """The width of a column; `longest_allowed` has that of the columns as wide as their text."""
    if width is not None:
        return max(width, len(title))
    least = 0
    if title in ("Name", _OVERLOAD):
        longest = max(len(e.key) for e in events)
    elif title == "Input Shapes":
        longest, least = max(len(str(e.input_shapes)) for e in events), _WIDTH
    else:
        longest = max((len(line) for e in events for line in e.stack or ()), default=0)
    longest, most = max(longest + 4, least), longest_allowed[title]
    return longest if most is None else max(min(longest, most), least)


def _lines_of(event, columns, source_width):
    """The cells of an event's lines: one, or where stacks are shown one for each source line."""
    sources = [_source(s, source_width) for s in event.stack or ()]
    titles = [title for title, _, _ in columns]
    first = sources[0] if sources else ""
    yield [first if title == _SOURCE else value(event) for title, _, value in columns]
    for source in sources[1:]:
        yield [source if title == _SOURCE else "" for title in titles]
    if _SOURCE in titles:
        yield [""] * len(titles)


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
    if top_level_only:
        rows = [e for e in rows if e.cpu_parent is None]
    if row_limit is not None and row_limit >= 0:
        rows = rows[:row_limit]
    columns = _columns(events, unit, name_width, shapes_width, with_memory, with_flops)
    allowed = {"Name": name_width, _OVERLOAD: name_width, "Input Shapes": shapes_width,
               _SOURCE: source_width}  # fmt: skip
    widths = [_width(title, width, events, allowed) for title, width, _ in columns]

    def line(cells):
        padded = (
            cell.ljust(width) if title == _SOURCE else cell.rjust(width)
            for cell, width, (title, _, _) in zip(cells, widths, columns)
        )  # fmt: skip
        return "".join(cell + " " * _GAP for cell in padded)

    rule = "".join("-" * width + " " * _GAP for width in widths)
    lines = []
    for head in (header, _ONLY_TOP_LEVEL if top_level_only else None):
        lines += [] if head is None else ["=" * (len(rule) - _GAP), head]
    lines += [rule, line([title for title, _, _ in columns]), rule]
    lines += [line(cells) for e in rows for cells in _lines_of(e, columns, source_width)]
    lines.append(rule)
    total = sum(e.self_cpu_time_total for e in events)
    lines.append(f"Self CPU time total: {format_time(total, unit)}")
    if _any_elsewhere(events):
        device_total = _device_total(events)
        device = _device_name(events)
        lines.append(f"Self {device} time total: {format_time(device_total, unit)}")
    return "\n".join(lines) + "\n"


def _source(text, width):
    """The end of a line's place, which tells more than its beginning."""
    return text if width is None or len(text) <= width else "..." + text[3 - width :]
