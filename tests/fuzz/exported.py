"""Files of exported programs with damage: an error or a program, which then runs or raises."""

import contextlib
import io
import json
import random
import resource
import signal
import time
import zipfile

from bad_input import is_good_error

import rushlight as rl
from rushlight import nn
from rushlight._higher_order_ops import scan, while_loop
from rushlight.export import Dim, export, load, save

from .files import BYTES, SECONDS, damage_bytes

PROGRAM, WEIGHTS = "program.json", "weights.safetensors"


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(8, 3)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
        return {"y": self.last(x.flatten(1)).softmax(-1), "n": x.sum().item()}


class Branches(nn.Module):
    def forward(self, x, n):
        (x,) = while_loop(lambda x: x.abs().sum() < 90, lambda x: (x * 1.5 + 1,), (x,))
        last, rows = scan(lambda c, row: (c + row, c * row), x[0], x)
        y = rl.cond(x.sum() > 0, lambda x: x.cos()[:, 1:], lambda x: x.tril()[:, 1:], (x,))
        return y, last, rows, x.sort(dim=0)[1], x.index_select(0, rl.tensor([1, 0])), x.size(0) * n


def _bases():
    programs = [
        (Layers().eval(), lambda: (rl.ones(2, 1, 6, 6),), [{0: Dim("n", max=8)}]),
        (Branches(), lambda: (rl.linspace(-1, 2, 12).view(3, 4), 2), None),
    ]
    made = []
    for module, inputs, sizes in programs:
        buffer = io.BytesIO()
        save(export(module, inputs(), dynamic_shapes=sizes), buffer)
        made.append((buffer.getvalue(), inputs))
    return made


BASES = []
ODD = [
    None, True, 0, -1, 3, 2**31, 2**62, -(2**63), 2**63, 10**40, 0.5, 1e308, "", "x", "__class__",
    "a.b", "\ud800", [], [[]], [1, 2], ["x"], [None] * 70, [2**40] * 3, [0, 2**62], {}, {"a": 1},
    {"node": "x"}, {"node": []}, {"graph": 0}, {"graph": 1}, {"graph": -1}, {"float": "nan"},
    {"float": 1}, {"complex": ["1", "x"]}, {"complex": ["inf", "nan"]}, {"dtype": "int8"},
    {"dtype": "nothing"}, {"dtype": "bool"}, {"dtype": "complex64"}, {"device": "meta"},
    {"device": "cuda:99"}, {"device": "x"}, {"memory_format": "channels_last"},
    {"layout": "strided"}, {"layout": "x"},
    {"symbol": [], "factor": 1, "offset": 0}, {"symbol": "n", "factor": 2**70, "offset": 1},
]  # fmt: skip
OPERATIONS = [
    "add", ".add", ".pow", ".getitem", ".scan", ".cond", ".while_loop", ".sym_size", ".item",
    ".tensor", ".length", ".shape", ".to_int", ".truth", "index_select", "as_strided", "gather",
    "scatter", "embedding", "conv2d", "repeat", "expand", "arange", "zeros", "full", "reshape",
    "sort", "topk", "einsum", "cat", "split", "unfold", "fold", "one_hot", "bincount", "linspace",
    "eye", "tril_indices",
]  # fmt: skip


def _places(value, found):
    """Where in a document something can be changed: (container, key)."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in entries:
        found.append((value, key))
        if isinstance(item, (dict, list)):
            _places(item, found)
    return found


def damage_document(rng, document):
    """Change some entries of what JSON says."""
    names = [n["name"] for g in document.get("graphs", ()) for n in g["inputs"] + g["nodes"]]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        places = _places(document, [])
        if not places:
            return
        container, key = rng.choice(places)
        kind = rng.randrange(10)
        if kind < 4:
            container[key] = rng.choice(ODD)
        elif kind == 4 and names:
            container[key] = {"node": rng.choice(names)}
        elif kind == 5:
            other, place = rng.choice(places)
            container[key] = json.loads(json.dumps(other[place]))
        elif kind == 6:
            del container[key]
        elif kind == 7 and isinstance(container, list):
            container.insert(key, rng.choice(ODD))
        elif isinstance(container, dict) and "op" in container:
            container["op"] = rng.choice(OPERATIONS)
        elif isinstance(container[key], int):
            container[key] = rng.choice([-1, 0, 1, 7, 64, 1000, 2**31, 2**53, -(2**62)])


def damage_weights(rng, data):
    """The tensors with another header."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    damage_document(rng, header)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def damage(rng, data):
    """A file with other contents, every check sum right; or with other bytes."""
    if rng.random() < 0.15:
        return damage_bytes(rng, data)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        text, weights = old.read(PROGRAM), old.read(WEIGHTS)
        if rng.random() < 0.8:
            document = json.loads(text)
            damage_document(rng, document)
            text = json.dumps(document)
        else:
            weights = damage_weights(rng, weights)
        new.writestr(WEIGHTS, weights)
        new.writestr(PROGRAM, text)
    return buffer.getvalue()


class Interrupted(BaseException):
    """As a KeyboardInterrupt, which a case is not to catch."""


@contextlib.contextmanager
def interruption_after(seconds):
    """Interrupt what takes more CPU than so."""

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run(seed, report):
    if not BASES:
        BASES.extend(_bases())
    rng = random.Random(seed)
    data, inputs = rng.choice(BASES)
    data = damage(rng, data)
    report.step(lambda: f"export.load of {len(data)} bytes")
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    module = None
    try:
        module = load(io.BytesIO(data)).module()
    except ValueError:
        pass  # what it is to raise, whatever the file says
    except Exception as error:
        report.finding("bad error of load", f"{type(error).__name__} {error}")
    spent = time.process_time() - started
    if spent > SECONDS:
        report.finding("slow", f"{spent:.1f} s for {len(data)} bytes")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > BYTES:
        report.finding("memory", f"{grown >> 20} MiB for {len(data)} bytes")
    if module is None:
        return
    report.step(lambda: "a call of the program")
    try:
        with interruption_after(SECONDS):
            module(*inputs())
    except Interrupted:
        pass  # a loop of the program's may have no end, but it can be interrupted
    except Exception as error:
        if not is_good_error(error):
            report.finding("bad error", f"{type(error).__name__} {error}")
