"""Whole networks: training step, inference and peak memory, beside torch.

    python -m bench.models [--only TEXT] [--rounds N] [--wall] [--threads N] [--json FILE]
                           [--plot FILE]

The networks are examples/models/*.py, the same text for each library. Libraries take turns within
a round; of the rounds the least counts, in thread CPU time (with --wall: in elapsed time). Peak
memory is that of a fresh process that trains, above what importing the library took.
"""

import argparse
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

SOURCES = Path(__file__).parent.parent / "examples" / "models"
MEMORY_STEPS = 3


def load_source(name, library):
    """The module examples/models/NAME.py, in which `rushlight` is `library`."""
    names = {"rushlight": library, "rushlight.nn": library.nn}
    path = SOURCES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{library.__name__}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, names):
        spec.loader.exec_module(module)
    return module


class Case:
    """A network, what it reads, its loss and its optimizer.

    Args:
        name: what the table calls it.
        make: function of the library that returns (model, inputs, loss of the model's output).
        optimizer: function of (library, parameters).
        steps: how often one measurement repeats the step.
        targets: the ratios to torch that the project promises for training and inference.
    """

    def __init__(self, name, make, optimizer, steps=1, targets=(None, None)):
        self.name, self.make, self.optimizer = name, make, optimizer
        self.steps, self.targets = steps, targets


class Subject:
    """One case in one library, or in one of torch's layouts."""

    def __init__(self, case, library, channels_last=False):
        library.manual_seed(0)
        self.library, self.steps = library, case.steps
        self.model, self.inputs, self.loss = case.make(library)
        if channels_last:
            self.model = self.model.to(memory_format=library.channels_last)
            self.inputs = [x.contiguous(memory_format=library.channels_last) for x in self.inputs]
        self.optimizer = case.optimizer(library, self.model.parameters())

    def train(self):
        self.model.train()
        self.optimizer.zero_grad()
        loss = self.loss(self.model(*self.inputs))
        loss.backward()
        self.optimizer.step()
        return loss

    def infer(self):
        self.model.eval()
        with self.library.no_grad():
            return self.model(*self.inputs)

    def time(self, what, clock):
        function = getattr(self, what)
        start = clock()
        for _ in range(self.steps):
            function()
        return (clock() - start) / self.steps


def sgd(library, parameters):
    return library.optim.SGD(parameters, lr=0.001, momentum=0.9)


def adam(library, parameters):
    return library.optim.Adam(parameters, lr=1e-4)


def classifier(source, name, batch, size=224, channels=3, classes=1000):
    """Makes a network of examples/models/SOURCE.py that scores images."""

    def make(library):
        model = getattr(load_source(source, library), name)()
        images = library.randn(batch, channels, size, size)
        labels = library.randint(0, classes, (batch,))
        return model, [images], lambda scores: library.nn.functional.cross_entropy(scores, labels)

    return make


def make_gnmt(library, words=4000, width=256, batch=16, length=20):
    model = load_source("gnmt", library).GNMT(words, width)
    source = library.randint(0, words, (length, batch))
    target = library.randint(0, words, (length, batch))
    cross_entropy = library.nn.functional.cross_entropy
    return model, [source, target], lambda s: cross_entropy(s.view(-1, words), target.view(-1))


def make_ncf(library, users=20000, items=5000, batch=1024):
    model = load_source("ncf", library).NeuMF(users, items)
    pairs = [library.randint(0, users, (batch,)), library.randint(0, items, (batch,))]
    liked = library.randint(0, 2, (batch,)).float()
    loss = library.nn.functional.binary_cross_entropy_with_logits
    return model, pairs, lambda scores: loss(scores, liked)


def make_gpt(library, words=512, batch=8, length=128):
    model = load_source("gpt", library).GPT(words, length)
    tokens = library.randint(0, words, (batch, length))
    cross_entropy = library.nn.functional.cross_entropy
    return model, [tokens], lambda s: cross_entropy(s.view(-1, words), tokens.view(-1))


def make_mlp(library):
    nn = library.nn
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    x, y = library.randn(8, 32), library.randn(8, 32)
    return model, [x], lambda out: ((out - y) ** 2).mean()


CASES = [
    Case("ResNet-50, 4 images", classifier("resnet", "ResNet50", 4), sgd, 1, (1.4, 1.4)),
    Case("MobileNetV2, 4 images", classifier("mobilenet", "MobileNetV2", 4), sgd, 1, (2, 2)),
    Case("AlexNet, 8 images", classifier("alexnet", "AlexNet", 8), sgd, 1, (1.2, 1.2)),
    Case("VGG-19, 2 images", classifier("vgg", "VGG19", 2), sgd, 1, (1.2, 1.2)),
    Case("GNMT, 16 x 20 words, 256 wide", make_gnmt, adam, 1, (1.3, None)),
    Case("NCF, 1024 pairs", make_ncf, adam, 5, (1.5, None)),
    Case("GPT, 8 x 128 tokens, 192 wide", make_gpt, adam, 2, (1.2, None)),
    Case("LeNet, 32 images of 8x8",
         classifier("lenet", "LeNet", 32, size=8, channels=1, classes=10), adam, 50, (3, None)),
    Case("MLP 32-32-32, batch 8", make_mlp, adam, 200, (10, None)),
]
LAYOUTS = ("ResNet-50", "MobileNetV2", "AlexNet", "VGG-19")  # timed in torch's channels_last too


def check_equal(case, subjects):
    """The libraries must run one program: the same seed gives the same first loss.

    Not in torch's channels_last, where dropout draws in the order of memory.
    """
    losses = {}
    for name, subject in subjects.items():
        subject.library.manual_seed(1)
        losses[name] = float(subject.train().detach())
    expected = losses["torch"]
    for name, loss in losses.items():
        if " " not in name and not math.isclose(loss, expected, rel_tol=1e-3):
            raise SystemExit(f"{case.name}: first loss {loss} in {name}, {expected} in torch")


def time_case(case, libraries, rounds, clock):
    """Seconds of {"train" | "infer": {subject: seconds}}."""
    subjects = {name: Subject(case, library) for name, library in libraries.items()}
    if case.name.startswith(LAYOUTS):
        subjects["torch channels_last"] = Subject(case, libraries["torch"], channels_last=True)
    check_equal(case, subjects)
    times = {}
    for what in ("train", "infer"):
        for subject in subjects.values():
            subject.time(what, clock)
        times[what] = best = dict.fromkeys(subjects, math.inf)
        for _ in range(rounds):
            for name, subject in subjects.items():
                best[name] = min(best[name], subject.time(what, clock))
    return times


def measure_memory(case, library):
    from process import peak_bytes, resident_bytes

    imported = resident_bytes()
    subject = Subject(case, library)
    for _ in range(MEMORY_STEPS):
        subject.train()
    return max(0, peak_bytes() - imported)


def memory_in_fresh_process(case, name, threads):
    command = [sys.executable, __file__, "--memory-of", name, "--only", case.name]
    return int(subprocess.check_output([*command, "--threads", str(threads)]))


def plot(results, ours, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.6 * len(results) + 1.2))
    for i, what in enumerate(("train", "infer")):
        ratios = [row[what]["torch"] / row[what][ours] for row in results.values()]
        places = [place + 0.4 * i for place in range(len(results))]
        label = {"train": "training step", "infer": "inference"}[what]
        axes.barh(places, ratios, 0.38, label=label)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks([place + 0.2 for place in range(len(results))], results)
    axes.invert_yaxis()
    axes.set_xlabel(f"times as fast as torch ({ours}, one process)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def arguments():
    parser = argparse.ArgumentParser(prog="bench.models")
    parser.add_argument("--only", default="", help="the cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--wall", action="store_true", help="elapsed time, for several threads")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--json", type=Path, default=Path("runs/bench-models.json"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--library", default="rushlight", help="what is measured beside torch")
    parser.add_argument("--memory-of", metavar="LIBRARY", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before the libraries load
    cases = [case for case in CASES if options.only in case.name]
    if options.memory_of:
        library = importlib.import_module(options.memory_of)
        library.set_num_threads(options.threads)
        print(measure_memory(cases[0], library))
        return
    ours = options.library
    libraries = {name: importlib.import_module(name) for name in (ours, "torch")}
    for library in libraries.values():
        library.set_num_threads(options.threads)
    clock = time.perf_counter if options.wall else time.thread_time
    print(f"{'torch / ' + ours:40}{'ratio':>7}{'promised':>9}{'ratio to':>14}"
          f"{'':4}{ours:>12}{'torch':>12}")
    print(f"{'':56}{'channels_last':>14}")
    results = {}
    for case in cases:
        results[case.name] = row = time_case(case, libraries, options.rounds, clock)
        for (what, times), target in zip(row.items(), case.targets):
            last = times.get("torch channels_last")
            print(f"{case.name + ', ' + what:40}{times['torch'] / times[ours]:6.2f}x"
                  f"{f'{target}x' if target else '-':>9}"
                  f"{f'{last / times[ours]:.2f}x' if last else '-':>14}    "
                  f"{times[ours] * 1e3:9.2f} ms{times['torch'] * 1e3:9.2f} ms", flush=True)
        if not options.no_memory:
            row["memory"] = memory = {
                name: memory_in_fresh_process(case, name, options.threads) for name in libraries}
            ratio = memory["torch"] / memory[ours]
            print(f"{case.name + ', memory':40}{ratio:6.2f}x{'1x':>9}{'-':>14}    "
                  f"{memory[ours] / 1e6:9.1f} MB{memory['torch'] / 1e6:9.1f} MB", flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.plot:
        plot(results, ours, options.plot)


if __name__ == "__main__":
    main()
