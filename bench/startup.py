"""What a library takes before it computes: size, import, and the memory of a small training.

    python -m bench.startup [--rounds N] [--json FILE]
    python bench/startup.py LIBRARY import|train|program   one figure, in a process of its own

The training is the quickstart's network on random images.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import re
import resource
import subprocess
import sys
import tempfile
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


def measure_program(name):
    """The processor's time of a process that reads LeNet and runs it once, without Python."""
    import numpy as np

    library = importlib.import_module(name)
    program = Path(__file__).parent.parent / "build" / "dev" / "rushlight-run"
    if name != "rushlight" or not program.exists():
        return {"seconds": None}
    nn = library.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file, images = Path(folder, "model.rl"), Path(folder, "x.npy")
        images_shape = (1, 1, 28, 28)
        library.export.save(library.export.export(model, (library.randn(images_shape),)), file)
        np.save(images, np.ones(images_shape, np.float32))
        before = children_seconds()
        subprocess.run([program, file, "--input", images], check=True, stdout=subprocess.DEVNULL)
        return {"seconds": children_seconds() - before}


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


MEASURES = {"import": measure_import, "train": measure_training, "program": measure_program}


def in_fresh_process(library, what, repetitions):
    """The least of each figure over some fresh processes."""
    command = [sys.executable, __file__, library, what]
    runs = [json.loads(subprocess.check_output(command)) for _ in range(repetitions)]
    return {key: runs[0][key] and min(run[key] for run in runs) for key in runs[0]}


def installed_bytes(name):
    """Of the package and, where it was installed by pip, of what it requires."""
    try:
        files = [Path(path) for path in required_files(name, set())]
    except importlib.metadata.PackageNotFoundError:
        files = Path(importlib.util.find_spec(name).origin).parent.rglob("*")
    return sum(p.stat().st_size for p in files if p.suffix != ".pyc" and p.is_file())


def required_files(name, seen):
    """The files of a distribution, and of those that it requires without an extra."""
    seen.add(name)
    distribution = importlib.metadata.distribution(name)
    yield from (distribution.locate_file(path) for path in distribution.files or ())
    for requirement in distribution.requires or ():
        other = re.match(r"[\w.-]+", requirement)[0].lower()
        if "extra ==" not in requirement and other not in seen and is_installed(other):
            yield from required_files(other, seen)


def is_installed(name):
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# (measure, its key, name, unit, what of the unit it is, what is promised at most)
ROWS = [
    ("import", "seconds", "import", "ms", 1e-3, 150),
    ("import", "modules", "modules that the import loads", "", 1, None),
    ("import", "resident_bytes", "memory after the import", "MB", 1e6, None),
    ("train", "peak_over_import_bytes", "peak above that, quickstart's network", "MB", 1e6, None),
    ("train", "growth_bytes", f"growth in {STEPS} steps", "MB", 1e6, None),
    ("train", "page_faults", f"page faults in {STEPS} steps", "", 1, None),
    ("train", "system_allocations", f"system allocations in {STEPS} steps", "", 1, None),
    ("program", "seconds", "rushlight-run: LeNet read and run once", "ms", 1e-3, 20),
]


def main():
    from bench import report

    options = report.arguments("bench.startup", rounds=3).parse_args()
    names = (options.library, "torch")
    table = report.Table("Size and start-up", names)
    sizes = {name: installed_bytes(name) / 1e6 for name in names}
    table.add(report.Figure("start-up", "installed, with what it requires", "MB", sizes, limit=45))
    measured = {
        (name, what): in_fresh_process(name, what, options.rounds)
        for what in MEASURES for name in names
    }
    for what, key, title, unit, scale, limit in ROWS:
        values = {name: measured[name, what][key] for name in names}
        values = {name: v if v is None else v / scale for name, v in values.items()}
        table.add(report.Figure("start-up", title, unit, values, limit=limit))
    report.finish(options, table)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2] in MEASURES:
        print(json.dumps(MEASURES[sys.argv[2]](sys.argv[1])))
    else:
        main()
