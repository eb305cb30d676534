"""The process that runs cases: it says in shared memory where it is, on stdout what it found."""

import faulthandler
import gc
import json
import mmap
import os
import resource
import struct
import sys
import time
import warnings

import rushlight as rl

from . import calls, exported, files, hooks, memory, programs, training, transforms, wrappers
from .memory import live

KINDS = {
    "calls": calls.run,
    "exported": exported.run,
    "files": files.run,
    "hooks": hooks.run,
    "memory": memory.run,
    "programs": programs.run,
    "training": training.run,
    "transforms": transforms.run,
    "wrappers": wrappers.run,
}
RECORD = struct.Struct("qqqq")  # seed, cases done, calls made, resident bytes
ADDRESS_SPACE = 3 << 29  # so that sizes that are huge by mistake fail at once
LEAK_PATIENCE = 3  # collections: a generation may free what holds the next


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * mmap.PAGESIZE


class Report:
    """What a case may say: a finding, and how many calls it has made."""

    def __init__(self, verbose):
        self.verbose, self.calls, self.seed = verbose, 0, 0

    def step(self, describe):
        """Before each call; `describe()` is its text."""
        self.calls += 1
        if self.verbose:
            print("   ", describe(), flush=True)

    def finding(self, what, detail):
        print(json.dumps({"seed": self.seed, "what": what, "detail": detail[:2000]}), flush=True)


def run_case(kind, seed, report):
    report.seed = seed
    rl.manual_seed(seed)
    before = live()
    KINDS[kind](seed, report)
    for _ in range(LEAK_PATIENCE):
        if live() <= before:
            return
        gc.collect()
    report.finding("leak", f"{live() - before} tensors and graph nodes more than before")


def main(kind, first, count, seconds, progress):
    faulthandler.enable()
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(600)  # deep structures are cheap then
    if "libasan" not in os.environ.get("LD_PRELOAD", "") and not programs.TORCH:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    rl.set_num_threads(1)
    gc.collect()
    gc.freeze()  # what was imported is no part of what collections look at
    report = Report(verbose=not progress)
    record = None
    if progress:
        with open(progress, "r+b") as file:
            record = mmap.mmap(file.fileno(), RECORD.size)
    end, done = time.monotonic() + seconds, 0
    for seed in range(first, first + count):
        if record:
            size = resident() if done % 64 == 0 else RECORD.unpack_from(record)[3]
            RECORD.pack_into(record, 0, seed, done, report.calls, size)
        run_case(kind, seed, report)
        done += 1
        if done % 64 == 0:
            gc.freeze()  # what the library has cached since, likewise
        if time.monotonic() > end:
            break
    if record:
        RECORD.pack_into(record, 0, -1, done, report.calls, resident())


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5] if len(sys.argv) > 5 else None)
