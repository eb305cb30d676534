"""What several processes cost: one program in rushlight and in torch, in one process and in two.

    python -m bench.distributed            all, a table; needs torch, mpi4py and mpich
    python -m bench.distributed gpt        one of gpt, resnet, all_reduce
    python -m bench.distributed --samples 64    in a step, of all processes together (16)
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
CASES = ("all_reduce", "gpt", "resnet")


def load(library):
    """The library under the name torch."""
    if library == "rushlight":
        import rushlight as torch
    else:
        import torch
    return torch


def gpt(torch, samples):
    """The small GPT's model, and a batch."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(96, 128), nn.Embedding(64, 128)
            layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.last = nn.Linear(128, 96)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
            h = self.tokens(x) + self.places(torch.arange(x.size(1)))
            return self.last(self.layers(h, mask=mask, is_causal=True)).flatten(0, 1)

    torch.manual_seed(0)
    x = torch.randint(0, 96, (samples, 64))
    return Net(), x, torch.randint(0, 96, (samples, 64))


def resnet(torch, samples):
    """ResNet-18 for small images, and a batch."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after),
                nn.ReLU(), nn.Conv2d(after, after, 3, 1, 1, bias=False),
                nn.BatchNorm2d(after),
            )  # fmt: skip
            self.skip = nn.Sequential()
            if stride != 1 or before != after:
                self.skip = nn.Sequential(
                    nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
                )

        def forward(self, x):
            return torch.relu(self.body(x) + self.skip(x))

    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(before, after, stride), Block(after, after, 1)]
        before = after
    torch.manual_seed(0)
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return net, torch.randn(samples, 3, 32, 32), torch.randint(0, 10, (samples,))


def train(torch, case, samples, is_distributed):
    """Milliseconds of a step: median, least, and least of this process's processor time."""
    net, x, y = {"gpt": gpt, "resnet": resnet}[case](torch, samples)
    rank = size = None
    if is_distributed:
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        net = torch.nn.parallel.DistributedDataParallel(net)
        x, y = x.chunk(size)[rank], y.chunk(size)[rank]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    times, processor = [], []
    for step in range(23 if case == "gpt" else 13):
        began, busy = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y.flatten())
        loss.backward()
        optimizer.step()
        if step >= 3:
            times.append(time.perf_counter() - began)
            processor.append(time.process_time() - busy)
    return [1e3 * statistics.median(times), 1e3 * min(times), 1e3 * min(processor)]


def worker(library, case, samples="16"):
    """One process; prints its result."""
    torch = load(library)
    size = int(os.environ.get("WORLD_SIZE", "0"))
    torch.set_num_threads(1 if size else 2)
    if size:
        torch.distributed.init_process_group("gloo")
    if case == "all_reduce":
        for count in (1, 1 << 18, 25 << 18):
            x, times = torch.zeros(count), []
            for _ in range(40):
                torch.distributed.barrier()
                began = time.perf_counter()
                torch.distributed.all_reduce(x)
                times.append(time.perf_counter() - began)
            if os.environ["RANK"] == "0":
                times = 1e3 * statistics.median(times), 1e3 * min(times)
                print(f"RESULT {4 * count} {times[0]} {times[1]}")
    else:
        figures = train(torch, case, int(samples), bool(size))
        if os.environ.get("RANK", "0") == "0":
            print("RESULT", *figures)
    sys.stdout.flush()
    os._exit(0)  # gloo's threads do not always end well


def measure(library, case, ranks, *arguments, module="bench.distributed", threads=2):
    """What one run prints; `arguments`: of worker(), `threads`: of a process alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    base = dict(os.environ, PYTHONPATH=f"{ROOT / 'python'}:{ROOT}", OMP_NUM_THREADS="1")
    if ranks == 1:
        base["OMP_NUM_THREADS"] = str(threads)
    command = [sys.executable, "-m", module, "worker", library, case, *arguments]
    processes = []
    for rank in range(ranks):
        variables = {} if ranks == 1 else {
            "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }  # fmt: skip
        processes.append(
            subprocess.Popen(command, env=base | variables, stdout=subprocess.PIPE, text=True)
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"{library} {case}: exit codes {[p.returncode for p in processes]}")
    return [
        line.removeprefix("RESULT ")
        for output in outputs
        for line in output.splitlines()
        if line.startswith("RESULT")
    ]


def main(cases, samples, rounds=5):
    """Print a table: medians and minima over rounds of all, in turns, so that a busy moment meets
    all alike.
    """
    for case in cases:
        found = {}
        for _ in range(rounds):
            for library in ("rushlight", "torch"):
                for ranks in (2,) if case == "all_reduce" else (1, 2):
                    for line in measure(library, case, ranks, str(samples)):
                        *words, median, least = line.split()
                        if case != "all_reduce":
                            words, (median, least, *_) = [], line.split()
                            busy = float(line.split()[2]) * ranks
                            found.setdefault((library, ranks, "processor"), []).append((busy, busy))
                        key = (library, ranks, *words)
                        found.setdefault(key, []).append((float(median), float(least)))
        load = f"load {os.getloadavg()[0]:.1f}"
        for (library, ranks, *words), runs in sorted(found.items(), key=str):
            median = statistics.median(run[0] for run in runs)
            least = min(run[1] for run in runs)
            what = " ".join(words)
            print(f"{case:10} {library:9} {ranks} processes {what:10} "
                  f"median {median:9.3f} ms  least {least:9.3f}  {load}", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
        parser.add_argument("--samples", type=int, default=16)
        given = parser.parse_args()
        if unknown := set(given.cases) - set(CASES):
            parser.error(f"no such case: {', '.join(unknown)}")
        main(given.cases or CASES, given.samples)
