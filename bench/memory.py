"""Memory under changing shapes: training with 10,000 random batch sizes, each library in a process
of its own and on one thread.

    python -m bench.memory [--steps N] [--json FILE]

Growth is that of resident memory after the first fifth of the steps, which warms up.
"""

import argparse
import importlib
import importlib.util
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from bench.startup import peak_bytes, resident_bytes

LARGEST_BATCH = 256


def make_perceptron(library):
    nn = library.nn
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, (64,)


def make_convolutions(library):
    nn = library.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    return model, (1, 8, 8)


NETWORKS = {"two linear layers": make_perceptron, "two convolutions": make_convolutions}


def measure(name, network, steps):
    library = importlib.import_module(name)
    library.set_num_threads(1)
    imported = resident_bytes()
    model, shape = NETWORKS[network](library)
    optimizer = library.optim.Adam(model.parameters())
    sizes = random.Random(0)

    def train(count):
        for _ in range(count):
            batch = sizes.randint(1, LARGEST_BATCH)
            labels = library.randint(0, 10, (batch,))
            optimizer.zero_grad()
            scores = model(library.randn(batch, *shape))
            library.nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()

    train(steps // 5)
    before, start = resident_bytes(), time.perf_counter()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    train(steps - steps // 5)
    return {
        "growth MB": (resident_bytes() - before) / 1e6,
        "peak MB": (peak_bytes() - imported) / 1e6,
        "page faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults,
        "seconds": time.perf_counter() - start,
    }


def main():
    parser = argparse.ArgumentParser(prog="bench.memory")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--json", type=Path, default=Path("runs/bench-memory.json"))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure, options.steps)))
        return
    libraries = ["rushlight"] + ["torch"] * (importlib.util.find_spec("torch") is not None)
    print(f"{options.steps} random batches of 1 to {LARGEST_BATCH}\n")
    print(f"{'':36}" + "".join(f"{name:>12}" for name in libraries))
    results = {}
    for network in NETWORKS:
        results[network] = row = {}
        for name in libraries:
            command = [sys.executable, "-m", "bench.memory", "--steps", str(options.steps)]
            row[name] = json.loads(subprocess.check_output([*command, "--measure", name, network]))
        for figure in row[libraries[0]]:
            cells = "".join(f"{row[name][figure]:12,.1f}" for name in libraries)
            print(f"{network + ', ' + figure:36}{cells}", flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
