"""Runs a program under Python's profiler, and again under the library's; tells what both saw."""

from __future__ import annotations

import argparse
import cProfile
import os
import platform
import pstats
import runpy
import sys

import rushlight
from rushlight.profiler import profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _environment():
    return "\n".join(
        [
            f"rushlight {rushlight.__version__}, {rushlight.get_num_threads()} threads",
            f"Python {platform.python_version()} on {platform.platform()}",
        ]
    )


def _run(script, arguments):
    before = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        sys.argv, sys.path[:] = before


def _title(text):
    print(f"\n{'-' * 80}\n  {text}\n{'-' * 80}")


def main(arguments: Any = None) -> None:
    """Profile a program.

    Args:
        arguments: those of the command line: the program's path and its own arguments.
    """
    parser = argparse.ArgumentParser(
        prog="python -m rushlight.utils.bottleneck",
        description="Where the time of a program goes: Python's functions, and operations.",
    )
    parser.add_argument("script", help="the program; it should take no more than a minute")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="of the program")
    options = parser.parse_args(arguments)
    python = cProfile.Profile()
    python.enable()
    try:
        _run(options.script, options.args)
    finally:
        python.disable()
    with profile() as prof:
        _run(options.script, options.args)
    _title("Environment")
    print(_environment())
    _title("Python's functions (cProfile), by their own time")
    pstats.Stats(python, stream=sys.stdout).sort_stats("tottime").print_stats(15)
    _title("Operations, by their own time")
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=15))
    _title("Report")
    print(prof.report())


if __name__ == "__main__":
    main()
