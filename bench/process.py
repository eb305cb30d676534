"""What a fresh process pays: the import, and the memory of training the quickstart's network.

Each library runs in a process of its own: `python bench/process.py LIBRARY import|train`.
"""

import importlib
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

PAGE = resource.getpagesize()
STEPS = 200


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def peak_bytes():
    """This program's own; getrusage's would count what the process was before it ran this one."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def measure_import(name):
    before = len(sys.modules)
    start = time.perf_counter()
    importlib.import_module(name)
    return {
        "seconds": time.perf_counter() - start,
        "modules": len(sys.modules) - before,
        "resident_bytes": resident_bytes(),
    }


def training_step(library):
    """The quickstart's network and batch, on random images."""
    nn = library.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10),
    )
    optimizer = library.optim.Adam(model.parameters(), lr=2e-3)
    images, labels = library.randn(32, 1, 8, 8), library.randint(0, 10, (32,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def measure_training(name):
    library = importlib.import_module(name)
    library.set_num_threads(1)
    step = training_step(library)
    imported = resident_bytes()
    for _ in range(20):
        step()
    resident, faults = resident_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    stats = getattr(library, "memory_stats", None)
    asked = stats()["system_allocations"] if stats else 0
    for _ in range(STEPS):
        step()
    return {
        "peak_over_import_bytes": max(0, peak_bytes() - imported),
        "growth_bytes": resident_bytes() - resident,
        "page_faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults,
        "system_allocations": stats()["system_allocations"] - asked if stats else None,
    }


MEASURES = {"import": measure_import, "train": measure_training}


def in_fresh_process(library, what, repetitions):
    """The least of each figure over some fresh processes."""
    command = [sys.executable, __file__, library, what]
    runs = [json.loads(subprocess.check_output(command)) for _ in range(repetitions)]
    return {key: runs[0][key] and min(run[key] for run in runs) for key in runs[0]}


if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[2]](sys.argv[1])))
