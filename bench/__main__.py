"""Runs the benches, each in a process of its own, and draws them together.

    make bench                                    what an operation costs, start-up and size
    make bench-full                               all of it, with torch.compile and JAX
    python -m bench [--full] [--two-threads] [--below RATIO] [--out FILE] [BENCH ...]

Writes FILE (runs/bench.json) and, beside it, a picture of the ratios; says at the end what was
promised and not reached.
"""

import argparse
import importlib.metadata
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import report

SHORT = {"overhead": [], "startup": []}
FULL = {
    "overhead": ["--rounds", "25"],
    "startup": ["--rounds", "5"],
    "kernels": [],
    "operators": [],
    "models": ["--compile", "--jax"],
    "transformers_models": [],
    "data": [],
}
TWO_THREADS = ["--jax", "--threads", "2", "--no-memory"]


def arguments():
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("benches", nargs="*", metavar="BENCH", help="of " + ", ".join(FULL))
    parser.add_argument("--full", action="store_true", help="all benches, and more repetitions")
    parser.add_argument("--two-threads", action="store_true",
                        help="the models on two threads too, by elapsed time")
    parser.add_argument("--below", type=float, default=0.9, help="list what is slower than this")
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"))
    parser.add_argument("--library", default="rushlight", help="what is measured beside torch")
    options = parser.parse_args()
    if unknown := set(options.benches) - set(FULL):
        parser.error(f"no bench {', '.join(sorted(unknown))}: there are {', '.join(FULL)}")
    return options


def chosen(options):
    """(module, its arguments) of each bench to run."""
    table = FULL if options.full or options.benches else SHORT
    for name, settings in table.items():
        if name in (options.benches or table):
            yield name, settings
    if options.two_threads:
        yield "models", TWO_THREADS


def versions(library):
    names = {library, "torch", "numpy", "jax", "transformers"}
    found = {d.name: d.version for d in importlib.metadata.distributions() if d.name in names}
    return {"machine": platform.machine(), "python": platform.python_version(), **found}


def main():
    options = arguments()
    figures, failed = [], []
    facts = versions(options.library)
    print("   ".join(f"{name} {version}" for name, version in facts.items()))
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, settings) in enumerate(chosen(options)):
            path = Path(folder) / f"{i}.json"
            command = [sys.executable, "-m", f"bench.{name}", "--library", options.library,
                       "--json", str(path), *settings]
            if subprocess.run(command).returncode:
                failed.append(" ".join(["bench." + name, *settings]))
            else:
                figures += report.read(path)
    report.write(options.out, figures, **facts)
    report.plot(figures, options.out.with_suffix(".png"))
    report.print_closing(figures, options.below)
    print(f"\n{options.out} {options.out.with_suffix('.png')}")
    if failed:
        raise SystemExit("failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
