"""Runs suites: python -m ecosystem (from tests/).

fetch [NAME ...]            install the libraries and unpack their suites
run [NAME ...]              with torch, if that was not done, and with rushlight
torch, rushlight [NAME ...] with that one alone
classes [NAME ...]          what failed, by what the messages have in common
count                       write results.tsv, and the table in README.md
"""

import argparse
import sys

from . import report, suites, table
from .torch_suites import ALL


def main():
    parser = argparse.ArgumentParser(prog="python -m ecosystem")
    steps = ("fetch", "run", "torch", "rushlight", "classes", "count")
    parser.add_argument("step", choices=steps)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=900, help="for each suite with each side")
    parser.add_argument("--examples", type=int, default=2, help="tests that are named by class")
    options = parser.parse_intermixed_args()
    unknown = set(options.names) - {library.name for library in ALL}
    if unknown:
        parser.error(f"no such library: {', '.join(sorted(unknown))}")
    chosen = [one for one in ALL if not options.names or one.name in options.names]
    if options.step == "classes":
        _show_classes(chosen, options.examples)
    elif options.step == "count":
        table.write(ALL)
    else:
        absent = []
        for library in chosen:
            if not suites.fetch(library):
                print(f"{library.name}: not fetched", flush=True)
                absent.append(library.name)
            elif options.step != "fetch":
                _run(library, options)
        sys.exit(1 if absent else 0)


def _run(library, options):
    sides = ("torch", "rushlight") if options.step == "run" else (options.step,)
    for side in sides:
        if options.step == "run" and side == "torch" and suites.passed(library, "torch"):
            continue
        status = suites.run(library, side, options.seconds)
        end = "stopped" if status is None else f"exit {status}"
        print(f"{library.name}: {side}: {len(suites.passed(library, side))} passed, {end}",
              flush=True)  # fmt: skip
    reference, ours = report.counts(library)
    print(f"{library.name}: {ours} of {reference}", flush=True)


def _show_classes(libraries, examples):
    for text, members in report.classes(libraries):
        print(f"{len(members):5}  {text}")
        for name, test, place, _ in members[:examples]:
            print(f"         {name}: {test}  {place}")


main()
