"""What an op on a GPU costs the host: with the simulator's driver, whose launches return at once.

    python -m bench.launches [--rounds N] [--json FILE]

Processor time of a call from Python, its launch included, the least of N rounds. `make cuda-sim`
builds the simulator.
"""

import argparse
import json
import os
import pathlib
import time

FOLDER = pathlib.Path(__file__).parent.parent / "build" / "cuda-sim"
CALLS = 2000


def rows(torch):
    x, y, out = (torch.ones(8, 8, device="cuda") for _ in range(3))
    w = torch.ones(8, 8, device="cuda", requires_grad=True)
    return {
        "add, out=": lambda: torch.add(x, y, out=out),
        "x.add_(y)": lambda: x.add_(y),
        "x.relu_()": lambda: x.relu_(),
        "x + y": lambda: x + y,
        "w * y, recorded": lambda: w * y,
        "x.sum()": lambda: x.sum(),
        "x @ y": lambda: x @ y,
    }


def measure(call, rounds):
    least = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(CALLS):
            call()
        least = min(least, time.process_time() - begin)
    return least / CALLS * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    os.environ.setdefault("RUSHLIGHT_CUDA_SIMULATOR", str(FOLDER))
    os.environ.setdefault("RUSHLIGHT_CACHE_DIR", str(FOLDER / "cache"))
    os.environ["RUSHLIGHT_SIMULATOR_IDLE"] = "1"
    import rushlight as torch

    found = {}
    for name, call in rows(torch).items():
        call()
        found[name] = measure(call, options.rounds)
        print(f"{name:20} {found[name]:6.2f} us", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
