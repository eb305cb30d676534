"""What a bench measured: lines of a table, one JSON, one picture, and the promises not kept."""

import argparse
import importlib
import json
import math
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Figure:
    """One line of a table.

    Args:
        section: the question it belongs to, as the closing table and the picture name it.
        name: what it is.
        unit: of the values: "ns", "us", "ms", "MB", "" (a count), "/s", of which more is better,
            or "mean", whose values are ratios.
        values: by subject. The first is ours; the others are what it is compared with.
        targets: the ratio that the project promises, by subject.
        limit: the most that it promises to take, in the unit.
        group: the figures that the picture shows on one line, if not this one alone.
    """

    section: str
    name: str
    unit: str
    values: dict
    targets: dict = field(default_factory=dict)
    limit: float | None = None
    group: str = ""

    @property
    def ours(self):
        return next(iter(self.values.values()))

    def ratio(self, rival):
        """How many times as good as the rival's the value is; None where there is none."""
        ours, theirs = self.ours, self.values.get(rival)
        if not ours or not theirs:
            return None
        return ours / theirs if self.unit == "/s" else theirs / ours

    def shortfalls(self):
        """Texts (what it came to, what was promised)."""
        for rival, target in self.targets.items():
            ratio = self.ratio(rival)
            if ratio is not None and round(ratio, 2) < target:
                yield f"{ratio:.2f}x {rival}", f"{target}x"
        if self.limit is not None and self.ours > self.limit:
            yield f"{self.ours:,.1f} {self.unit}", f"{self.limit:g} {self.unit}"


def mean_of(figures, name, rival="torch", target=None):
    """The geometric mean of the figures' ratios, as a figure."""
    ratios = [figure.ratio(rival) for figure in figures]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    ours = next(iter(figures[0].values))
    targets = {rival: target} if target else {}
    return Figure(figures[0].section, name, "mean", {ours: 1.0, rival: mean}, targets)


class Table:
    """Prints figures as they come, ratios first, and keeps them."""

    def __init__(self, title, subjects):
        self.ours, self.first, *self.others = subjects
        self.figures = []
        print(f"\n{title}\n\n{'':46}{self.first + ' /':>9}{'promised':>9}"
              + "".join(f"{name + ' /':>16}" for name in self.others)
              + f"{self.ours:>16}{self.first:>14}")

    def add(self, figure):
        self.figures.append(figure)
        cells = f"{times(figure.ratio(self.first)):>9}{self.promise(figure):>9}"
        cells += "".join(f"{times(figure.ratio(name)):>16}" for name in self.others)
        if figure.unit != "mean":
            cells += f"{quantity(figure.ours, figure.unit):>16}"
            cells += f"{quantity(figure.values.get(self.first), figure.unit):>14}"
        print(f"{figure.name:46}{cells}", flush=True)

    def promise(self, figure):
        if figure.limit is not None:
            return f"<= {quantity(figure.limit, figure.unit).split('.')[0]}"
        target = figure.targets.get(self.first)
        return f"{target}x" if target else "-"


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2f}x"


def quantity(value, unit):
    if value is None:
        return "-"
    digits = 0 if unit in ("ns", "") else 2 if unit == "ms" else 1
    return f"{value:,.{digits}f} {unit}".strip()


# ---- what the benches' command lines share


def arguments(name, **defaults):
    """A parser with the options of every bench."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=defaults.get("rounds", 5))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wall", action="store_true",
                        help="elapsed time instead of CPU time; always so with several threads")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--library", default="rushlight", help="what is measured beside torch")
    return parser


def begin(options):
    """The libraries by name, on the threads asked for."""
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before they load
    libraries = {name: importlib.import_module(name) for name in (options.library, "torch")}
    for library in libraries.values():
        library.set_num_threads(options.threads)
    return libraries


def clock_of(options, one_thread=time.thread_time):
    """CPU time of one thread, so that a busy machine lengthens the run and not the figures."""
    return time.perf_counter if options.wall or options.threads > 1 else one_thread


def finish(options, *tables):
    if options.json:
        write(options.json, [figure for table in tables for figure in table.figures])


def write(path, figures, **facts):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(figure) for figure in figures]
    path.write_text(json.dumps({**facts, "figures": rows}, indent=1) + "\n")


def read(path):
    return [Figure(**row) for row in json.loads(path.read_text())["figures"]]


# ---- all of them together


def print_closing(figures, below):
    """What was promised and not reached, and what is slower than torch by more than `below`."""
    missed = [(f, got, promise) for f in figures for got, promise in f.shortfalls()]
    promises = sum(len(f.targets) + (f.limit is not None) for f in figures)
    print(f"\nPromised and not reached: {len(missed)} of {promises}\n")
    for figure, got, promise in missed:
        print(f"{figure.section + ': ' + figure.name:62}{got:>24}{promise:>10}")
    slow = [(f, f.ratio("torch")) for f in figures if (f.ratio("torch") or math.inf) < below]
    print(f"\nBelow {below}x of torch: {len(slow)} of {len(figures)}\n")
    for figure, ratio in sorted(slow, key=lambda pair: pair[1]):
        print(f"{figure.section + ': ' + figure.name:62}{ratio:23.2f}x")


def plot(figures, path):
    """A panel per section, a line per figure or group of figures, a dot per ratio."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = {}
    for figure in figures:
        line = panels.setdefault(figure.section, {}).setdefault(figure.group or figure.name, [])
        line.append(figure)
    rivals = list(dict.fromkeys(r for f in figures for r in list(f.values)[1:]))
    colours = dict(zip(rivals, matplotlib.colormaps["tab10"].colors))
    heights = [len(lines) + 1.5 for lines in panels.values()]
    sheet, axes = pyplot.subplots(
        len(panels), figsize=(9, 0.24 * sum(heights) + 1), height_ratios=heights, squeeze=False,
        sharex=True)
    for panel, (section, lines) in zip(axes[:, 0], panels.items()):
        for place, line in enumerate(lines.values()):
            for f in line:
                for rival in list(f.values)[1:]:
                    if f.ratio(rival):
                        panel.plot(f.ratio(rival), place, "o", markersize=4, alpha=0.7,
                                   color=colours[rival])
                for rival, target in f.targets.items():
                    panel.plot(target, place, "|", markersize=9, color=colours[rival])
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_yticks(range(len(lines)), lines, fontsize=7)
        panel.set_ylim(len(lines) - 0.5, -0.5)
        panel.set_title(section, fontsize=9, loc="left")
        panel.grid(axis="x", alpha=0.3)
    axes[-1, 0].set_xscale("log")
    axes[-1, 0].set_xlabel("times as good as (bar: promised)", fontsize=8)
    handles = [pyplot.Line2D([], [], marker="o", linestyle="", color=colours[r], label=r)
               for r in rivals]
    axes[0, 0].legend(handles=handles, fontsize=7, loc="lower right", ncols=len(handles),
                      bbox_to_anchor=(1, 1))
    sheet.tight_layout()
    sheet.savefig(path, dpi=110)
