"""Prints rushlight's figures beside torch's and NumPy's, and writes them as JSON.

    make bench                                           or, with torch in the environment:
    python -m bench [--full] [--only TEXT] [--json FILE] [--library NAME]
"""

import argparse
import importlib
import json
import os
import platform
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before the libraries load

from bench import overhead, process
from bench.timing import time_row


def arguments():
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--full", action="store_true", help="more repetitions, and large operands")
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    parser.add_argument("--json", type=Path, default=Path("runs/bench.json"))
    parser.add_argument("--library", default="rushlight", help="what is measured beside torch")
    return parser.parse_args()


def show_times(title, rows, libraries, ours, repetitions):
    print(f"\n{title} (ns, one thread, thread CPU time, least of {repetitions})\n")
    print(f"{'':46}" + "".join(f"{name:>12}" for name in libraries) + "   torch / ours  promised")
    figures = {}
    for row in rows:
        figures[row.name] = times = time_row(row, libraries, repetitions)
        cells = "".join(f"{times[n]:12,.0f}" if n in times else f"{'-':>12}" for n in libraries)
        ratio = times["torch"] / times[ours]
        promise = f"{row.target:8}x" if row.target else f"{'-':>9}"
        print(f"{row.name:46}{cells}{ratio:14.1f}x {promise}", flush=True)
    return figures


def show_processes(ours, repetitions):
    figures = {}
    print("\nA fresh process\n")
    print(f"{'':46}{ours:>12}{'torch':>12}")
    for what in process.MEASURES:
        results = {
            name: process.in_fresh_process(name, what, repetitions) for name in (ours, "torch")
        }
        figures[what] = results
        for key in results[ours]:
            cells = "".join(f"{format_figure(key, results[n][key]):>12}" for n in (ours, "torch"))
            print(f"{what + ': ' + key.removesuffix('_bytes').replace('_', ' '):46}{cells}")
    return figures


def format_figure(key, value):
    if value is None:
        return "-"
    if key.endswith("bytes"):
        return f"{value / 1e6:.1f} MB"
    return f"{value * 1000:.0f} ms" if key == "seconds" else f"{value:,}"


def main():
    options = arguments()
    names = dict.fromkeys([options.library, "torch", "numpy"])
    libraries = {name: importlib.import_module(name) for name in names}
    for name in {options.library, "torch"}:
        libraries[name].set_num_threads(1)
    repetitions = 25 if options.full else 7
    tables = {"Overhead": overhead.ROWS}
    if options.full:
        tables["Large operands"] = overhead.LARGE_ROWS
    results = {"machine": platform.machine(), "python": platform.python_version()}
    results["versions"] = {name: library.__version__ for name, library in libraries.items()}
    print("   ".join(f"{name} {version}" for name, version in results["versions"].items()))
    for title, rows in tables.items():
        chosen = [row for row in rows if options.only in row.name]
        results[title] = show_times(title, chosen, libraries, options.library, repetitions)
    if not options.only:
        results["Process"] = show_processes(options.library, 5 if options.full else 2)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\n{options.json}")


main()
