"""How many batches per second a DataLoader gives: in-process, with worker processes, with threads.

    python -m bench.data [--only TEXT] [--rounds N] [--json FILE]
    python -m bench.data LIBRARY ROW           one figure, which is how the table measures

Each figure is taken in fresh processes, which take turns: the wall-clock rate of one epoch, the
first batch (which waits for workers to start) left out, the best of some epochs. Torch has no
worker threads: beside ours stand its worker processes.
"""

import importlib
import json
import subprocess
import sys
import time

EPOCHS = 5
BATCH = 64

SMALL = {"shape": (16,), "samples": 12800}
IMAGES = {"shape": (3, 64, 64), "samples": 3200}
LARGE = {"shape": (3, 224, 224), "samples": 640}
WAYS = {
    "in-process": {},
    "2 processes": {"num_workers": 2, "persistent_workers": True},
    "2 threads": {"num_workers": 2, "worker_type": "thread", "persistent_workers": True},
}
DATA = {"16 floats": SMALL, "3x64x64": IMAGES, "3x224x224": LARGE}
ROWS = {f"{data}, {way}": (DATA[data], WAYS[way]) for data in DATA for way in WAYS}


def rate(library, row):
    """Batches per second."""
    torch = importlib.import_module(library)
    data = importlib.import_module(f"{library}.utils.data")
    torch.set_num_threads(1)
    facts, options = ROWS[row]

    class Images(data.Dataset):
        """Samples that cost a copy and a multiplication."""

        source = torch.randn(*facts["shape"])

        def __len__(self):
            return facts["samples"]

        def __getitem__(self, index):
            return self.source * (index / facts["samples"]), index % 10

    loader = data.DataLoader(Images(), batch_size=BATCH, shuffle=True, **options)
    best = 0.0
    for _ in range(EPOCHS):
        batches = iter(loader)
        images, labels = next(batches)
        assert images.shape == (BATCH, *facts["shape"]) and labels.shape == (BATCH,)
        start, count = time.perf_counter(), 0
        for _ in batches:
            count += 1
        best = max(best, count / (time.perf_counter() - start))
        del batches
    return best


def in_fresh_process(library, row):
    if library == "torch":
        row = row.replace("threads", "processes")
    command = [sys.executable, "-m", "bench.data", library, row]
    return json.loads(subprocess.check_output(command))


def main():
    from bench import report

    options = report.arguments("bench.data", rounds=2).parse_args()
    names = (options.library, "torch")
    table = report.Table(f"Batches of {BATCH} per second, elapsed time", names)
    for row in ROWS:
        if options.only in row:
            best = dict.fromkeys(names, 0.0)
            for _ in range(options.rounds):
                best = {name: max(rate, in_fresh_process(name, row)) for name, rate in best.items()}
            table.add(report.Figure("data loading", row, "/s", best))
    report.finish(options, table)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2] in ROWS:
        print(json.dumps(rate(*sys.argv[1:])))
    else:
        main()
