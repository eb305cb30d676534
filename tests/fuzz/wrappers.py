"""Random functions in what should not change their results: captured as a graph, saved and read
again, under modes and hooks that only look, on tensors of other layouts, on meta, in a thread.

Functions are those of `transforms`. The values, shapes, and gradients by the first argument of each
run are those of the plain run.
"""

import io
import random
import threading

import numpy as np

import rushlight as rl
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils.checkpoint import checkpoint

from .transforms import Line, number


class Program(rl.nn.Module):
    """A line as a module, which captures take."""

    def __init__(self, line):
        super().__init__()
        self.line = line

    def forward(self, *args):
        return self.line(*args)


class Looking(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Watching(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Tagged(rl.Tensor):
    """A class of tensors that takes nothing over."""


def plainly(f, args):
    return f(*args)


def under(mode):
    def run(f, args):
        with mode():
            return f(*args)

    return run


def hooked(f, args):
    with rl.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), rl.from_numpy):
        return f(*args)


def in_thread(f, args):
    found = []
    thread = threading.Thread(target=lambda: found.append(f(*args)))
    thread.start()
    thread.join()
    return found[0]


def traced(f, args):
    return rl.jit.trace(f, tuple(a.detach() for a in args), check_trace=False)(*args)


def traced_and_saved(f, args):
    file = io.BytesIO()
    rl.jit.save(rl.jit.trace(f, tuple(a.detach() for a in args), check_trace=False), file)
    file.seek(0)
    return rl.jit.load(file)(*args)


def exported(f, args):
    return rl.export.export(Program(f), tuple(args)).module()(*args)


def exported_and_saved(f, args):
    file = io.BytesIO()
    rl.export.save(rl.export.export(Program(f), tuple(args)), file)
    file.seek(0)
    return rl.export.load(file).module()(*args)


def decomposed(f, args):
    return rl.export.export(Program(f), tuple(args)).run_decompositions().module()(*args)


def dual(f, args):
    with rl.autograd.forward_ad.dual_level() as level:
        made = [rl.autograd.forward_ad.make_dual(a, rl.zeros_like(a)) for a in args]
        return rl.autograd.forward_ad.unpack_dual(f(*made), level=level).primal


def strided(a):
    """The same elements, each twice as far from the next, in reversed order of dims."""
    room = rl.zeros([2 * n for n in reversed(a.shape)], dtype=a.dtype)
    view = room.permute(tuple(reversed(range(a.dim()))))[(slice(None, None, 2),) * a.dim()]
    return view.copy_(a)


RECORDED = {  # by which a gradient goes too
    "dispatch mode": under(Looking),
    "function mode": under(Watching),
    "saved tensors hooks": hooked,
    "checkpoint": lambda f, args: checkpoint(f, *args, use_reentrant=False),
    "reentrant checkpoint": lambda f, args: checkpoint(f, *args, use_reentrant=True),
    "thread": in_thread,
    "jit.trace": traced,
    "jit.save": traced_and_saved,
    "export": exported,
    "make_fx": lambda f, args: make_fx(f)(*[a.detach() for a in args])(*args),
    "functionalize": lambda f, args: rl.func.functionalize(f)(*args),
    "compile": lambda f, args: rl.compile(f)(*args),
    "strides": lambda f, args: f(*[strided(a) for a in args]),
    "channels_last": lambda f, args: f(*[
        a.to(memory_format=rl.channels_last) if a.dim() == 4 else a for a in args
    ]),
    "subclass": lambda f, args: f(*[a.as_subclass(Tagged) for a in args]).as_subclass(rl.Tensor),
    "anomaly": under(rl.autograd.detect_anomaly),
}  # fmt: skip
PLAIN = {
    "no_grad": under(rl.no_grad),
    "inference_mode": under(rl.inference_mode),
    "export.save": exported_and_saved,
    "decompositions": decomposed,
    "dual": dual,
}


def outcome(f, wrapper, values, wants):
    try:
        args = [rl.from_numpy(a.copy()).requires_grad_(wants) for a in values]
        out = wrapper(f, args)
        if not wants:
            return [out.detach().numpy()]
        if out.requires_grad:
            number(out).backward()
        return [out.detach().numpy(), *(None if a.grad is None else a.grad.numpy() for a in args)]
    except Exception as error:
        return error


def same(a, b):
    if isinstance(a, Exception) or isinstance(b, Exception) or len(a) != len(b):
        return False
    for x, y in zip(a, b):
        if (x is None) != (y is None):
            return False
        if x is not None and not (
            x.shape == y.shape
            and x.dtype == y.dtype
            and np.allclose(x, y, 1e-9, 1e-9 * (1 + np.abs(y).max(initial=0)), equal_nan=True)
        ):
            return False
    return True


def run(seed, report):
    rng = random.Random(seed)
    line = Line(rng)
    if not line.steps:
        return
    values = line.values
    for wants, wrappers in ((True, RECORDED), (False, {**RECORDED, **PLAIN})):
        expected = outcome(line, plainly, values, wants)
        if isinstance(expected, Exception):
            continue
        for name, wrapper in wrappers.items():
            report.step(lambda: f"{name} {wants}: {line}")  # noqa: B023
            found = outcome(line, wrapper, values, wants)
            if same(found, expected):
                continue
            if isinstance(found, Exception):
                text = f"{type(found).__name__}: {str(found)[:300]}"
                report.finding("refused", f"{name} {wants}: {line}: {text}")
            else:
                report.finding("differs", f"{name} {wants}: {line}: {found} {expected}"[:900])
    meta = [rl.empty(s, dtype=rl.float64, device="meta") for s in line.shapes]
    try:
        with rl.device("meta"):
            shape = tuple(line(*meta).shape)
    except Exception as error:
        report.finding("refused", f"meta: {line}: {type(error).__name__}: {str(error)[:300]}")
    else:
        if shape != outcome(line, plainly, values, False)[0].shape:
            report.finding("differs", f"meta: {line}: {shape}")
