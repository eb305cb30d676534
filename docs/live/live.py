"""What runs the examples in the page: a namespace for each page, and plots as SVG.

Programs of the page may `import live`: `live.plot(values)` draws a line, `live.image(tensor)` an
image of one channel, `live.show(html)` anything else.
"""

import html
import traceback

import live_page

_namespaces: dict[str, dict[str, object]] = {}


def first_import() -> None:
    import rushlight  # noqa: F401 - so that the first program need not wait for it


def run(page: str, code: str) -> str | None:
    """Runs a program with what the page's earlier ones defined; the text of its error, or None."""
    names = _namespaces.setdefault(page, {"__name__": "__main__"})
    try:
        exec(compile(code, "<example>", "exec"), names)
    except BaseException as error:  # noqa: BLE001 - it is shown, whatever it is
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        return "".join(traceback.format_exception(type(error), error, frames))
    return None


def show(text: str) -> None:
    """Adds HTML to the program's output."""
    live_page.show(text)


def _numbers(values: object) -> list[float]:
    return [float(v) for v in (values.tolist() if hasattr(values, "tolist") else values)]


def _ticks(low: float, high: float) -> tuple[float, float, float]:
    return low, (low + high) / 2, high


def plot(*lines: object, x: object = None, names: tuple[str, ...] = (), title: str = "") -> None:
    """Draws each of `lines` (numbers, or a tensor of them) over `x`, by default 0, 1 ..."""
    series = [_numbers(line) for line in lines]
    places = _numbers(x) if x is not None else [float(i) for i in range(max(map(len, series)))]
    width, height, left, low = 560, 260, 60, 230
    every = [v for line in series for v in line]
    bottom, top = min(every), max(every)
    span, reach = (top - bottom) or 1.0, (max(places) - min(places)) or 1.0

    def across(v: float) -> float:
        return left + (v - min(places)) / reach * (width - left - 10)

    def down(v: float) -> float:
        return low - (v - bottom) / span * (low - 30)

    parts = [f'<text x="{left}" y="16">{html.escape(title)}</text>']
    for v in _ticks(bottom, top):
        parts.append(f'<text x="{left - 6}" y="{down(v) + 4}" text-anchor="end">{v:.3g}</text>')
        path = f'd="M{left} {down(v)}H{width - 10}" stroke="currentColor" stroke-opacity=".2"'
        parts.append(f"<path {path}/>")
    for v in _ticks(min(places), max(places)):
        place = f'x="{across(v)}" y="{low + 18}" text-anchor="middle"'
        parts.append(f"<text {place}>{v:.3g}</text>")
    for number, line in enumerate(series):
        colour = ("#2a7de1", "#e0662a", "#2a9d4e", "#9a4ddb")[number % 4]
        points = " ".join(f"{across(p):.1f},{down(v):.1f}" for p, v in zip(places, line))
        look = f'fill="none" stroke="{colour}" stroke-width="2"'
        parts.append(f'<polyline points="{points}" {look}/>')
        if number < len(names):
            place = left + 10 + 110 * number
            parts.append(f'<text x="{place}" y="{low + 28}" fill="{colour}">'
                         f"{html.escape(names[number])}</text>")  # fmt: skip
    head = f'<svg viewBox="0 0 {width} {height}" width="{width}" font-size="12"'
    show(f'{head} fill="currentColor">{"".join(parts)}</svg>')


def image(tensor: object, size: int = 16) -> None:
    """Draws a tensor of two dims, from its least number (black) to its largest (white)."""
    rows = tensor.tolist()
    every = [v for row in rows for v in row]
    low, span = min(every), (max(every) - min(every)) or 1
    cells = "".join(
        f'<rect x="{j * size}" y="{i * size}" width="{size}" height="{size}" '
        f'fill="rgb({shade},{shade},{shade})"/>'
        for i, row in enumerate(rows)
        for j, shade in enumerate(round(255 * (v - low) / span) for v in row)
    )
    width, height = len(rows[0]) * size, len(rows) * size
    show(f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">{cells}</svg>')
