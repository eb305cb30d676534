"""Tables of measurements."""

from __future__ import annotations

from rushlight.utils.benchmark._measurement import Measurement, select_unit, trim_sigfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


class Compare:
    """A table for each label: descriptions side by side, sub-labels and threads below each other.

    Args:
        results: measurements, as `Timer`'s methods return them.
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results = []
        self._trim = self._colorize = self._rowwise = self._warn = False
        self.extend_results(results)

    def extend_results(self, results: Any) -> None:
        """Add measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected a Measurement, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show no more figures than the spread of the times allows."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Mark the best time of each column, or of each row, in a terminal."""
        self._colorize, self._rowwise = True, rowwise

    def highlight_warnings(self) -> None:
        """Tell which times vary widely."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        tables = {}
        for result in Measurement.merge(self._results):
            tables.setdefault(result.label, []).append(result)
        return "\n".join(self._table(label, results) for label, results in tables.items())

    def _table(self, label, results):
        unit, scale = select_unit(min(r.median for r in results))
        columns = list(dict.fromkeys(r.description or "" for r in results))
        cells, threads = {}, {}
        for r in results:
            name = f"{r.as_row_name}{f' ({r.env})' if r.env else ''}"
            threads.setdefault(r.num_threads, {})[name] = None
            cells[r.num_threads, name, r.description or ""] = r
        texts = {place: self._cell(r, scale) for place, r in cells.items()}
        first = max(len("6 threads: "), *(len(name) + 8 for n in threads for name in threads[n]))
        widths = {c: max([len(c), *(len(t) for p, t in texts.items() if p[2] == c)]) + 4
                  for c in columns}  # fmt: skip
        width = first + sum(widths.values()) + len(columns)
        heading = f" {label or results[0].stmt} "
        lines = [f"[{heading.center(width - 2, '-')}]"]
        lines.append(" " * first + "".join(f"|{c.center(widths[c])}" for c in columns))
        for n, names in sorted(threads.items()):
            lines.append(f"{n} threads: ".ljust(width, "-"))
            for name in names:
                row = [f"      {name}".ljust(first)]
                for c in columns:
                    row.append(f"|{texts.get((n, name, c), '').rjust(widths[c] - 2)}  ")
                    row[-1] = self._coloured(row[-1], cells, (n, name, c))
                lines.append("".join(row))
        return "\n".join([*lines, "", f"Times are in {_UNITS[unit]} ({unit}).", ""])

    def _cell(self, result, scale):
        t = result.median / scale
        if self._trim:
            t = trim_sigfig(t, result.significant_figures)
            text = f"{t:.0f}" if t >= 10 ** (result.significant_figures - 1) else f"{t:g}"
        else:
            text = f"{t:.1f}"
        return f"(! {result.iqr / result.median:.0%}) {text}" if self._warn_of(result) else text

    def _warn_of(self, result):
        return self._warn and result.has_warnings

    def _coloured(self, text, cells, place):
        if not self._colorize or place not in cells:
            return text
        same = [0, 1] if self._rowwise else [2]
        rivals = [r.median for p, r in cells.items() if all(p[i] == place[i] for i in same)]
        best = cells[place].median <= min(rivals)
        return f"|\033[92m\033[1m{text[1:]}\033[0m" if best else text
