"""Whole networks beside torch, torch.compile and JAX: training step, inference and peak memory.

    python -m bench.models [--only TEXT] [--rounds N] [--threads N] [--wall] [--json FILE]
                           [--compile] [--jax] [--no-memory]

The networks are examples/models/*.py, the same text for each library; for JAX, bench/jax_models.py.
What is compared takes turns within a round; of the rounds the least counts. On one thread that is
the CPU time of the process, in which nothing else runs, and not of the calling thread: JAX computes
on a thread of its own. Compilation is not counted. Peak memory is that of a fresh process that
trains, above what importing the library took.
"""

import importlib
import importlib.util
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

from bench import report
from bench.timing import begin_turn

SOURCES = Path(__file__).parent.parent / "examples" / "models"
MEMORY_STEPS = 3


def load_source(name, library):
    """The module examples/models/NAME.py, in which `rushlight` is `library`."""
    names = {"rushlight": library, "rushlight.nn": library.nn}
    path = SOURCES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{library.__name__}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where torch.compile looks for the globals of functions
    with mock.patch.dict(sys.modules, names):
        spec.loader.exec_module(module)
    return module


class Case:
    """A network, what it reads, its loss and its optimizer.

    Args:
        name: what the table calls it.
        source: the network's name in bench/jax_models.py.
        make: function of the library that returns (model, inputs, target, loss), where loss is a
            function of the model's output and the target.
        optimizer: function of (library, parameters).
        steps: how often one measurement repeats the step.
        train, infer: the ratios that the project promises, by subject.
        layouts: whether torch is timed in channels_last too.
        autocast: whether the network computes under autocast to bfloat16; then beside eager torch
            alone.
    """

    def __init__(self, name, source, make, optimizer, steps=1, train=(), infer=(), layouts=False,
                 autocast=False):
        self.name, self.source, self.make, self.optimizer = name, source, make, optimizer
        self.steps, self.layouts, self.autocast = steps, layouts, autocast
        self.targets = {"train": dict(train), "infer": dict(infer)}


class Subject:
    """One case in one library: eager, in channels_last, or compiled by torch."""

    def __init__(self, case, library, channels_last=False, compiled=False):
        library.manual_seed(0)
        self.library = library
        self.model, self.inputs, self.target, loss = case.make(library)
        if channels_last:
            self.model = self.model.to(memory_format=library.channels_last)
            self.inputs = [x.contiguous(memory_format=library.channels_last) for x in self.inputs]
        self.optimizer = case.optimizer(library, self.model.parameters())
        self.score = lambda: self.model(*self.inputs)
        self.evaluate = lambda: loss(self.model(*self.inputs), self.target)
        if case.autocast:
            cast = library.autocast("cpu", library.bfloat16)
            self.score, self.evaluate = cast(self.score), cast(self.evaluate)
        self.update = self.optimizer.step
        if compiled:
            self.score, self.evaluate, self.update = map(
                library.compile, (self.score, self.evaluate, self.update))

    def train(self):
        self.model.train()
        self.optimizer.zero_grad()
        loss = self.evaluate()
        loss.backward()
        self.update()
        return loss

    def infer(self):
        self.model.eval()
        with self.library.no_grad():
            return self.score()


def seconds(subject, what, steps, clock):
    function = getattr(subject, what)
    begin_turn(clock, function)
    start = clock()
    for _ in range(steps):
        function()
    return (clock() - start) / steps


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
        return model, [images], labels, library.nn.functional.cross_entropy

    return make


def make_gnmt(library, words=4000, width=256, batch=16, length=20):
    model = load_source("gnmt", library).GNMT(words, width)
    source = library.randint(0, words, (length, batch))
    target = library.randint(0, words, (length, batch))
    return model, [source, target], target, word_loss(library)


def make_ncf(library, users=20000, items=5000, batch=1024):
    model = load_source("ncf", library).NeuMF(users, items)
    pairs = [library.randint(0, users, (batch,)), library.randint(0, items, (batch,))]
    liked = library.randint(0, 2, (batch,)).float()
    return model, pairs, liked, library.nn.functional.binary_cross_entropy_with_logits


def make_gpt(library, words=512, batch=8, length=128):
    model = load_source("gpt", library).GPT(words, length)
    tokens = library.randint(0, words, (batch, length))
    return model, [tokens], tokens, word_loss(library)


def word_loss(library):
    cross_entropy = library.nn.functional.cross_entropy
    return lambda scores, words: cross_entropy(scores.view(-1, scores.shape[-1]), words.view(-1))


def make_mlp(library):
    nn = library.nn
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    x, y = library.randn(8, 32), library.randn(8, 32)
    return model, [x], y, lambda out, y: ((out - y) ** 2).mean()


LAST, COMPILED = "channels_last", "torch.compile"
CASES = [
    Case("ResNet-50, 4 images", "resnet", classifier("resnet", "ResNet50", 4), sgd, 1,
         {"torch": 1.4, LAST: 1.1}, {"torch": 1.4}, layouts=True),
    Case("MobileNetV2, 4 images", "mobilenet", classifier("mobilenet", "MobileNetV2", 4), sgd, 1,
         {"torch": 2, LAST: 1.3}, {"torch": 2, LAST: 1.3}, layouts=True),
    Case("AlexNet, 8 images", "alexnet", classifier("alexnet", "AlexNet", 8), sgd, 1,
         {"torch": 1.2}, {"torch": 1.2}, layouts=True),
    Case("VGG-19, 2 images", "vgg", classifier("vgg", "VGG19", 2), sgd, 1,
         {"torch": 1.2}, {"torch": 1.2}, layouts=True),
    Case("GNMT, 16 x 20 words, 256 wide", "gnmt", make_gnmt, adam, 1, {"torch": 1.3}),
    Case("NCF, 1024 pairs", "ncf", make_ncf, adam, 5, {"torch": 1.5}),
    Case("GPT, 8 x 128 tokens, 192 wide", "gpt", make_gpt, adam, 2, {"torch": 1.2}),
    Case("ResNet-50, autocast, 4 images", "resnet", classifier("resnet", "ResNet50", 4), sgd, 1,
         {"torch": 1}, {"torch": 1}, autocast=True),
    Case("GPT, autocast, 8 x 128 tokens, 192 wide", "gpt", make_gpt, adam, 2, {"torch": 1.3},
         {"torch": 1.1}, autocast=True),
    Case("LeNet, 32 images of 8x8", "lenet",
         classifier("lenet", "LeNet", 32, size=8, channels=1, classes=10), adam, 50,
         {"torch": 3}),
    Case("MLP 32-32-32, batch 8", "mlp", make_mlp, adam, 200, {"torch": 10}),
]


def make_subjects(case, libraries, options):
    """The case in each library, by subject; the programs are checked to be one."""
    subjects = {name: Subject(case, library) for name, library in libraries.items()}
    check_first_losses(case, subjects)
    if case.layouts:
        subjects[LAST] = Subject(case, libraries["torch"], channels_last=True)
    if options.compile and not case.autocast:
        compiled = Subject(case, libraries["torch"], compiled=True)
        if compiles(case, compiled):
            subjects[COMPILED] = compiled
    if options.jax and not case.autocast:
        from bench.jax_models import JaxSubject

        reference = Subject(case, libraries["torch"])
        subjects["JAX"] = JaxSubject(case.source, reference, case.optimizer is adam)
        subjects["JAX"].check(reference)
    return subjects


def compiles(case, subject):
    try:
        subject.train()
        subject.infer()
    except Exception as error:  # whatever a compiler throws: the table goes on without it
        print(f"{case.name}: torch.compile failed: {type(error).__name__}: {error}")
        return False
    return True


def check_first_losses(case, subjects):
    """The same seed gives the same first loss, dropout included."""
    losses = {}
    for name, subject in subjects.items():
        subject.library.manual_seed(1)
        losses[name] = float(subject.train().detach())
    near = 2e-2 if case.autocast else 1e-3
    if not all(math.isclose(loss, losses["torch"], rel_tol=near) for loss in losses.values()):
        raise SystemExit(f"{case.name}: the first losses differ: {losses}")


def time_case(case, subjects, rounds, clock):
    """Yields ("train" | "infer", milliseconds by subject)."""
    for what in ("train", "infer"):
        best = dict.fromkeys(subjects, math.inf)
        for round in range(rounds + 1):
            for name, subject in subjects.items():
                taken = seconds(subject, what, case.steps, clock) * 1e3
                if round > 0:  # the first warms up
                    best[name] = min(best[name], taken)
        yield what, best


def measure_memory(case, library):
    from bench.startup import peak_bytes, resident_bytes

    imported = resident_bytes()
    subject = Subject(case, library)
    for _ in range(MEMORY_STEPS):
        subject.train()
    return max(0, peak_bytes() - imported)


def memory_in_fresh_process(case, name, threads):
    command = [sys.executable, "-m", "bench.models", "--memory-of", name, "--only", case.name,
               "--threads", str(threads)]
    return int(subprocess.check_output(command)) / 1e6


def arguments():
    parser = report.arguments("bench.models")
    parser.add_argument("--compile", action="store_true", help="torch.compile too; needs g++")
    parser.add_argument("--jax", action="store_true", help="JAX too, jitted")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--memory-of", metavar="LIBRARY", help=report.argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    cases = [case for case in CASES if options.only in case.name]
    if options.memory_of:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
        library = importlib.import_module(options.memory_of)
        library.set_num_threads(options.threads)
        print(measure_memory(cases[0], library))
        return
    # Read when JAX loads: its threads, and those within an operation.
    os.environ["NPROC"] = str(options.threads)
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(options.threads > 1).lower()}"
    libraries = report.begin(options)
    clock = report.clock_of(options, one_thread=time.process_time)
    rivals = [LAST, *[COMPILED] * options.compile, *["JAX"] * options.jax]
    section = "models" if options.threads == 1 else f"models, {options.threads} threads"
    table = report.Table(section.capitalize(), [*libraries, *rivals])
    for case in cases:
        subjects = make_subjects(case, libraries, options)
        compiled = {name: 1 for name in (COMPILED, "JAX") if name in subjects}
        for what, values in time_case(case, subjects, options.rounds, clock):
            table.add(report.Figure(section, f"{case.name}, {what}", "ms", values,
                                    {**case.targets[what], **compiled}))
        if not options.no_memory:
            memory = {name: memory_in_fresh_process(case, name, options.threads)
                      for name in libraries}
            table.add(report.Figure(section, f"{case.name}, memory", "MB", memory, {"torch": 1}))
    report.finish(options, table)


if __name__ == "__main__":
    main()
