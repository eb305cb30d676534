"""Calls with hostile arguments: of the op table, and of every public function and method."""

import contextlib
import functools
import importlib
import inspect
import math
import os
import random
import re
import threading

import numpy as np
from bad_input import describe, is_good_error
from table import PUBLIC, Array, DType, case, function, texts_of, tree_map

import rushlight as rl

CALLS = 40  # of one case, over the same tensors
TOGETHER = 4  # calls with one sample of a row, each with other changes
ROWS = [(op, len(texts_of(op))) for op in PUBLIC if texts_of(op)]
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
DTYPES = DTYPES.split()
SAMPLED = [None, None, "float32", "int64", "bfloat16", "complex64", "bool"]
SHAPES = [(), (0,), (1,), (3,), (7,), (2, 3), (3, 2), (4, 4), (2, 0, 3), (1, 1, 1), (2, 3, 4)]
SHAPES += [(1, 2, 5, 5), (2, 1, 3, 1), (1, 2, 3, 3, 3), (65,), (1,) * 20]
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 5e-324, 1e308, 3.4e38, 65504.0, 0.5]
NUMBERS = [*SPECIAL, 2, 3, -2, 100, 2**31, -(2**31) - 1, 2**40, 2**63 - 1, -(2**63), 2**64, 10**30]
NUMBERS += [True, False, 1j, complex(math.nan, math.inf), np.float32(2), np.int64(3), np.bool_(1)]
WORDS = ["mean", "sum", "none", "a", "", "reflect", "fro", "\ud800", "i,j->ij", "float32", "cpu"]


class Random(random.Random):
    """The generator of a case. Its choices cost a fourth of what the standard library's do."""

    def choice(self, values):
        return values[int(self.random() * len(values))]

    def randrange(self, n):
        return int(self.random() * n)


# Functions that change how the process runs, read or write files, or wait for others.
NOT_CALLED = re.compile(
    "set_|save|load|hub|compile|jit|seed|fork|from_file|share_memory|exit|breakpoint|_initialize"
    "|PyTorchFile|manual|multiprocessing|distributed|use_deterministic|_C$|__init_subclass__|__class__"
    "|__subclasshook__|__getattribute__|__setattr__|__delattr__|__new__|__del__|as_torch|rpc"
    "|enable_grad|inference_mode|_enter|__dir__|__sizeof__|set_default|get_rng|rng|profile|start"
)
# Operations whose names begin with an underscore: libraries call some of them.
PRIVATE = re.compile("_(?!_|assert|call_in_turn|check|default|disabled|python_part|sym_|Module)")
MODULES = ["", "nn.functional", "linalg", "fft", "special", "sparse", "nn.init", "nn.utils", "func"]
MODULES += ["autograd.functional", "nn", "masked", "signal.windows", "autograd.forward_ad"]
# Of these what they call public alone: helpers that they import may keep what they are given.
DECLARED = ["autograd", "autograd.profiler", "profiler", "debug", "export"]
DECLARED += ["amp", "cpu", "fx", "library"]
DECLARED += ["nn.attention", "nn.utils.rnn", "nn.utils.parametrize", "nn.utils.prune"]
DECLARED += ["optim.lr_scheduler", "overrides", "testing", "utils", "utils.data", "quasirandom"]
DECLARED += ["utils.flop_counter", "utils.dlpack", "utils.benchmark", "nested", "distributions"]


def public_functions():
    found = {}
    for name in [*MODULES, *DECLARED]:
        module = importlib.import_module(f"rushlight.{name}".rstrip("."))
        for attribute in getattr(module, "__all__", ()) if name in DECLARED else dir(module):
            private = attribute.startswith("_") and (name or not PRIVATE.match(attribute))
            if private or NOT_CALLED.search(attribute):
                continue
            try:
                value = getattr(module, attribute)
            except ImportError:  # needs a library that is not there
                continue
            if not callable(value):
                continue
            if isinstance(value, type) and issubclass(value, (BaseException, rl.optim.Optimizer)):
                continue
            found[f"{name}.{attribute}".lstrip(".")] = value
    for attribute in dir(rl.Tensor):
        value = getattr(rl.Tensor, attribute, None)
        if callable(value) and not NOT_CALLED.search(attribute):
            found[f"Tensor.{attribute}"] = value
    return found


FUNCTIONS = public_functions()
NAMES = sorted(FUNCTIONS)


# Their numbers of layers are loops in Python, as long as one asks for.
COUNTED = re.compile("nn.(Transformer|RNN|LSTM|GRU|ModuleList|ParameterList|MultiheadAttention)")


# Each call of these takes as long as a thousand others: they look at every object of the process,
# at every public function, or copy modules. Half of all time would be theirs.
SELDOM = {"overrides.get_testing_overrides", "debug.memory_report", "quasirandom.SobolEngine"}
SELDOM |= {"nn.Transformer", "nn.TransformerDecoder", "nn.TransformerEncoder"}
ONE_OF = 10  # of the calls that would be theirs


class Hostile:
    """An object whose methods change a tensor of the case, or raise, before they answer."""

    def __init__(self, rng, tensors):
        self.act = rng.choice([*ACTIONS])
        self.tensor = rng.choice(tensors)
        self.answer = rng.choice([0, 1, -1, 2, 2**40, 2**63])

    def __repr__(self):
        return f"Hostile({self.act}, {self.answer})"

    def _do(self):
        try:
            ACTIONS[self.act](self.tensor)
        except RuntimeError:  # a leaf, expanded memory: then it answers without having acted
            pass
        return self.answer

    def __index__(self):
        return self._do()

    def __int__(self):
        return self._do()

    def __len__(self):
        return abs(self._do()) % 5

    def __float__(self):
        return float(self._do())

    def __complex__(self):
        return complex(self._do())

    def __bool__(self):
        return bool(self._do())

    def __eq__(self, other):
        return bool(self._do())

    def __hash__(self):
        return hash(self._do())

    def __lt__(self, other):
        return bool(self._do())

    def __iter__(self):
        for _ in range(3):
            yield self._do()

    def __getitem__(self, index):
        if index == 3:
            raise IndexError
        return self._do()


class Sequence(Hostile):
    """A list whose length is not what it yields."""

    def __len__(self):
        return 3


def _raise(tensor):
    raise KeyError("from a hostile object")


ACTIONS = {
    "nothing": lambda t: None,
    "shrink": lambda t: t.resize_(0),
    "grow": lambda t: t.resize_(100),
    "set": lambda t: t.set_(),
    "other shape": lambda t: t.resize_(2, 2),
    "in place": lambda t: t.add_(1),
    "data": lambda t: setattr(t, "data", rl.zeros(5)),
    "collect": lambda t: t.untyped_storage().resize_(0),
    "raise": _raise,
    "grad": lambda t: t.requires_grad_(),
}


def make_tensor(rng):
    dtype = getattr(rl, rng.choice(DTYPES))
    shape = rng.choice(SHAPES)
    kind = rng.randrange(14)
    if kind == 0:
        return rl.empty(shape, dtype=dtype, device="meta")
    if kind == 1:
        return rl.ones(1, dtype=dtype).expand(rng.choice([(2, 3), (4096,), (2**16,), (0, 5)]))
    if dtype.is_floating_point or dtype.is_complex:
        made = rl.randn(shape, dtype=rl.float32).to(dtype)
        if kind in (2, 3) and made.numel():
            made.view(-1)[rng.randrange(made.numel())] = rl.tensor(rng.choice(SPECIAL)).to(dtype)
    else:
        high = 2 if dtype is rl.bool else rng.choice([2, 4, 100])
        made = rl.randint(0, high, shape).to(dtype)
        if kind == 2 and made.numel() and dtype is not rl.bool:
            made.view(-1)[rng.randrange(made.numel())] = rl.iinfo(dtype).max
    if kind == 4 and made.dim() > 1:
        made = made.transpose(0, -1)
    if kind == 5 and made.dim():
        made = made[..., ::2]
    if kind == 6 and made.numel() > 3:
        made = made.as_strided((2, 2), (rng.randrange(2), rng.randrange(2)), 1)
    if kind == 7 and made.dim() == 4:
        made = made.contiguous(memory_format=rl.channels_last)
    if kind == 8 and made.dim() == 2 and dtype.is_floating_point:
        made = made.to_sparse()
    if kind in (9, 10) and (dtype.is_floating_point or dtype.is_complex):
        made.requires_grad_()
    if kind == 11:
        made = made.as_subclass(Plain)
    return made


class Plain(rl.Tensor):
    """A subclass that changes nothing."""


def odd_bool(rng):
    """Truth values whose bytes are neither 0 nor 1."""
    shape = rng.choice([s for s in SHAPES if s])
    return rl.randint(0, 256, shape).to(rl.uint8).view(rl.bool)


def make_deep(rng):
    value = rng.choice([1, 1.5, None])
    for _ in range(rng.choice([2, 5, 70, 400])):
        kind = rng.random()
        value = [value] if kind < 0.8 else (value, value) if kind < 0.82 else (value,)
    return value


DEEP = [make_deep(Random(seed)) for seed in range(64)]


def make_value(rng, tensors):
    """Anything at all."""
    kind = rng.randrange(20)
    if kind < 8:
        return rng.choice(tensors)
    if kind < 11:
        return rng.choice(NUMBERS)
    if kind == 11:
        return Hostile(rng, tensors)
    if kind == 12:
        return Sequence(rng, tensors)
    if kind == 13:
        return [make_value(rng, tensors) for _ in range(rng.randrange(4))]
    if kind == 14:
        return tuple(rng.choice([0, 1, 2, 3, -1, 2**40, 2**62]) for _ in range(rng.randrange(5)))
    if kind == 15:
        return rng.choice(
            [None, object(), {}, {"a": rng.choice(tensors)}, set(), b"abc", slice(1, 9, 2)]
        )
    if kind == 16:
        return getattr(rl, rng.choice(DTYPES))
    if kind == 17:
        return rng.choice(WORDS)
    if kind == 18:
        return rng.choice(
            [..., rl.device("meta"), rl.strided, rl.channels_last, rl.Generator(), len]
        )
    return rng.choice(DEEP)


class Copied:
    """A tensor of a sample: each call gets a copy of its elements."""

    def __init__(self, array):
        self.dtype = getattr(rl, array.dtype)
        made = array.tensor(rl)
        self.values = (made.float() if self.dtype is rl.bfloat16 else made).numpy().copy()

    def tensor(self):
        made = rl.from_numpy(self.values.copy())
        return made.bfloat16() if self.dtype is rl.bfloat16 else made


@functools.cache
def sample_of(at, number, dtype):
    """Arguments of a row's sample, with Copied tensors: its text takes longer than the call."""
    made = case(ROWS[at][0], number, dtype)
    of_ours = tree_map(lambda d: getattr(rl, d.name), (made.args, made.named), DType)
    return tree_map(Copied, of_ours, Array)


@functools.cache
def function_of(name):
    try:
        return function(rl, name)
    except AttributeError:
        return None


@functools.cache
def names_of(at):
    """Of a row, without and with those of its variant in place."""
    op = ROWS[at][0]
    names = [n for n in op.python_names if n]
    methods = [n for n in names if n.startswith("Tensor.")] or names
    return names, [n + "_" for n in methods[:1]] if op.row.inplace else names


def fresh(value):
    """`value` with tensors for what is Copied."""
    kind = type(value)
    if kind is Copied:
        return value.tensor()
    return tree_map(Copied.tensor, value, Copied) if kind in (list, tuple, dict) else value


def from_row(rng, tensors):
    """Calls with a row's sample, some arguments replaced."""
    at = rng.randrange(len(ROWS))
    dtype = rng.choice(SAMPLED)
    args, named = sample_of(at, rng.randrange(ROWS[at][1]), dtype)
    args = [fresh(value) for value in args]
    named = {key: fresh(value) for key, value in named.items()}
    for _ in range(TOGETHER):
        yield changed(rng, tensors, at, [*args], {**named})


def changed(rng, tensors, at, args, named):
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        if args:
            args[rng.randrange(len(args))] = make_value(rng, tensors)
    if named and rng.random() < 0.3:
        named[rng.choice(sorted(named))] = make_value(rng, tensors)
    if rng.random() < 0.15:
        named["out"] = rng.choice([*tensors, *[a for a in args if isinstance(a, rl.Tensor)]])
    plain, in_place = names_of(at)
    name = rng.choice(in_place if rng.random() < 0.3 else plain)
    if function_of(name) is None:
        name = plain[0]
    return name, function_of(name), args, named


@functools.cache
def parameters_of(name):
    try:
        return list(inspect.signature(FUNCTIONS[name]).parameters.values())
    except (ValueError, TypeError):
        return None


def from_public(rng, tensors):
    """A call of a public function with anything at all."""
    name = rng.choice(NAMES)
    if name in SELDOM and rng.randrange(ONE_OF):
        name = rng.choice(NAMES)
    parameters = parameters_of(name)
    count = rng.randrange(5) if parameters is None else min(len(parameters), rng.randrange(6))
    args = [make_value(rng, tensors) for _ in range(count)]
    if name.startswith("Tensor.") and rng.random() < 0.95:
        args[:1] = [rng.choice(tensors)]
    named = {}
    if parameters and rng.random() < 0.2:
        chosen = rng.choice(parameters)
        if chosen.kind is not chosen.POSITIONAL_ONLY and parameters.index(chosen) >= count:
            named[chosen.name] = make_value(rng, tensors)
    if COUNTED.match(name):
        args = [a for a in args if type(a) in (str, bool, rl.Tensor) or a is None]
    yield name, FUNCTIONS[name], args, named


def hostile_calls(rng, tensors):
    """(name, function, args, named) of the calls of one case."""
    made = 0
    while made < CALLS:
        for call in (from_row if rng.random() < 0.3 else from_public)(rng, tensors):
            made += 1
            yield call


def tensors_in(result, most=20, levels=5):
    """Some of the tensors in what a call returned."""
    if isinstance(result, rl.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if levels == 0 or not isinstance(result, (list, tuple)):
        return []
    return [t for part in result[:most] for t in tensors_in(part, most, levels - 1)]


def use(rng, result):
    """What a program may do next with what it got."""
    found = tensors_in(result)
    for tensor in found[:3]:
        if tensor.numel() > 1 << 16:
            continue
        kind = rng.randrange(8)
        if kind == 0:
            repr(tensor)
        elif kind == 1 and tensor.requires_grad:
            tensor.sum().backward()
        elif kind == 2:
            tensor.clone()
        elif kind == 3 and not tensor.is_meta:
            tensor.tolist()
        elif kind == 4:
            tensor[..., :1]
        elif kind == 5 and isinstance(result, rl.nn.Module):
            result(tensor)
    return [t for t in found if t.numel() < 1 << 16]


class Racing:
    """Memory that a thread changes all the time: tensors of the case look at it."""

    def __init__(self):
        self.memory = np.zeros(64, np.int64)
        self.ended = False
        self.thread = threading.Thread(target=self._change, daemon=True)

    def _change(self):
        values = [0, 1, 2**40, -5, 2**62, -(2**63)]
        turn = 0
        while not self.ended:
            self.memory[:] = values[turn % len(values)]
            turn += 1

    def tensors(self):
        whole = rl.from_numpy(self.memory)
        return [whole, whole.view(rl.float64), whole[:3], whole.view(rl.uint8)[:9]]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()


def run(seed, report):
    rng = Random(seed)
    tensors = [make_tensor(rng) for _ in range(6)]
    if seed % 8 == 1:
        tensors.append(odd_bool(rng))
    if seed % 16 != 2 or os.environ.get("FUZZ_TIMED") == "0":
        return call_all(rng, tensors, report)
    with Racing() as racing:
        call_all(rng, [*tensors, *racing.tensors()], report)


def call_all(rng, tensors, report):
    try:
        make_calls(rng, tensors, report)
    finally:
        with contextlib.suppress(RuntimeError):  # there is no level
            rl.autograd.forward_ad.exit_dual_level()


def make_calls(rng, tensors, report):
    for name, call, args, named in hostile_calls(rng, tensors):
        report.step(lambda: f"{name}{describe((tuple(args), named))}")  # noqa: B023
        try:
            made = use(rng, call(*args, **named))
        except (Exception, GeneratorExit) as error:
            made = []
            if not is_good_error(error) and not isinstance(error, (AssertionError, KeyError)):
                if str(error) or not isinstance(error, (StopIteration, MemoryError, GeneratorExit)):
                    report.finding("bad error", f"{name}: {type(error).__name__} {error}")
        if made and rng.random() < 0.3:
            tensors[rng.randrange(len(tensors))] = made[0]
        if not rl.is_grad_enabled():
            rl.set_grad_enabled(True)
