"""Threads: what a busy machine costs, and what several Python threads gain. Elapsed time.

    python -m bench.threads [--only TEXT] [--rounds N] [--json FILE]

Beside busy processes: each library runs in a process of its own on as many threads as there are
processors, alone and beside as many processes that compute without end. Twice as slow is a fair
share of the machine; 3 times is promised. Mean times, for it is the long waits that matter.

Several Python threads: each runs the same network on one thread, at once and one after another.
"""

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

PROCESSORS = len(os.sched_getaffinity(0))
SECONDS = 0.5
BUSY_LIMIT = 3


def make_add(library, size):
    a, b = library.randn(size), library.randn(size)
    return lambda: a + b


def make_matmul(library, size):
    a, b = library.randn(size, size), library.randn(size, size)
    return lambda: a @ b


def make_sum(library, size):
    a = library.randn(size, size)
    return lambda: a.sum(0)


def make_training(library, case):
    from bench import models

    subject = models.Subject(next(c for c in models.CASES if c.name.startswith(case)), library)
    return subject.train


def make_inference(library, case):
    from bench import models

    subject = models.Subject(next(c for c in models.CASES if c.name.startswith(case)), library)
    return subject.infer


def make_image(library, size):
    """One image through two convolutions: what an inference server does."""
    nn = library.nn
    layers = [nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)]
    model, image = nn.Sequential(*layers), library.randn(1, 3, size, size)

    def infer():
        with library.no_grad():
            return model(image)

    return infer


WORK = {
    "add, 4 floats": (make_add, 4),
    "add, 2^16 floats": (make_add, 1 << 16),
    "add, 2^18 floats": (make_add, 1 << 18),
    "add, 2^22 floats": (make_add, 1 << 22),
    "column sums of 1024 x 1024": (make_sum, 1024),
    "128 x 128 @ 128 x 128": (make_matmul, 128),
    "512 x 512 @ 512 x 512": (make_matmul, 512),
    "two convolutions of an image": (make_image, 224),
    "training step of a 32-32-32 network": (make_training, "MLP"),
    "training step of LeNet": (make_training, "LeNet"),
    "training step of GPT": (make_training, "GPT"),
}
NETWORKS = ("ResNet-50", "GPT", "LeNet")


def mean_seconds(function):
    """Of one call, over at least half a second; two calls warm up."""
    function(), function()
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < SECONDS or count < 3:
        function()
        count += 1
    return elapsed / count


def side_by_side(library, case, threads=2):
    """Seconds that threads take for some inferences each: one after another, and at once."""
    library.set_num_threads(1)
    functions = [make_inference(library, case) for _ in range(threads)]
    calls = max(1, int(SECONDS / mean_seconds(functions[0])))

    def run(function):
        for _ in range(calls):
            function()

    start = time.perf_counter()
    for function in functions:
        run(function)
    middle = time.perf_counter()
    workers = [threading.Thread(target=run, args=(function,)) for function in functions]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return middle - start, time.perf_counter() - middle


def measure(name, row):
    library = importlib.import_module(name)
    if row in NETWORKS:
        return side_by_side(library, row)
    library.set_num_threads(PROCESSORS)
    make, argument = WORK[row]
    return mean_seconds(make(library, argument))


class BusyProcesses:
    """As many processes as there are processors, each computing without end."""

    def __enter__(self):
        loop = [sys.executable, "-c", "while True: pass"]
        self.processes = [subprocess.Popen(loop) for _ in range(PROCESSORS)]
        time.sleep(0.2)

    def __exit__(self, *error):
        for process in self.processes:
            process.kill()
            process.wait()


def in_fresh_process(library, row):
    command = [sys.executable, "-m", "bench.threads", "--measure", library, row]
    return json.loads(subprocess.check_output(command))


def show_busy(libraries, rounds, only):
    print(
        f"\n{PROCESSORS} threads, alone and beside {PROCESSORS} busy processes (us, median of "
        f"{rounds})\n"
    )
    print(f"{'':38}" + "".join(f"{f'{name} alone':>16}{'busy':>10}{'':>8}" for name in libraries))
    results = {}
    for row in WORK:
        if only not in row:
            continue
        times = {name: {"alone": [], "busy": []} for name in libraries}
        for _ in range(rounds):
            for name in libraries:
                times[name]["alone"].append(in_fresh_process(name, row))
            with BusyProcesses():
                for name in libraries:
                    times[name]["busy"].append(in_fresh_process(name, row))
        results[row] = {
            name: {k: statistics.median(v) for k, v in t.items()} for name, t in times.items()
        }
        cells = "".join(
            f"{t['alone'] * 1e6:16,.1f}{t['busy'] * 1e6:10,.1f}{t['busy'] / t['alone']:7.1f}x"
            for t in results[row].values()
        )
        print(f"{row:38}{cells}", flush=True)
    return results


def show_side_by_side(libraries, rounds, only):
    print(
        f"\nInferences in two Python threads: time at once / one after another (best of {rounds})\n"
    )
    print(f"{'':38}" + "".join(f"{name:>12}" for name in libraries))
    results = {}
    for case in NETWORKS:
        if only not in case:
            continue
        results[case] = row = dict.fromkeys(libraries, float("inf"))
        for _ in range(rounds):
            for name in libraries:
                apart, at_once = in_fresh_process(name, case)
                row[name] = min(row[name], at_once / apart)
        print(f"{case:38}" + "".join(f"{ratio:12.2f}" for ratio in row.values()), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(prog="bench.threads")
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("runs/bench-threads.json"))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure)))
        return
    libraries = ["rushlight"] + ["torch"] * (importlib.util.find_spec("torch") is not None)
    results = {
        "busy": show_busy(libraries, options.rounds, options.only),
        "side by side": show_side_by_side(libraries, options.rounds, options.only),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
