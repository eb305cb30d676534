"""Programs in which one allocation of the library fails after another.

Each sample of the op table, its gradients, in-place and `out=` forms, and the programs of
memory_programs.py are run with their first allocation failing, then their second, until none is
left; once so that it fails alone, once with all after it. What must hold: the process lives, the
exception says that there is no memory, what is not to be changed is as it was, no mode is left
behind, and the same call gives the right result afterwards. Nothing leaks, says the worker.

Each attempt has a thread of its own, whose lists of small blocks are empty, so that what comes from
a list elsewhere is asked of the system.

FUZZ_MEMORY=python lets Python's allocations fail instead. Interpreters have faults of their own
there: 3.11 leaks the arguments of a call whose frame has no memory, loses exceptions, and crashes
where an iterator of a dict has none.
"""

import ctypes
import functools
import gc
import os
import threading

import numpy as np
from table import PUBLIC, case, function, of_library, texts_of, tree_map

import rushlight as rl
from rushlight import _C

from .memory_programs import PROGRAMS

try:
    from _testcapi import remove_mem_hooks, set_nomemory
except ImportError:  # an interpreter without its tests
    set_nomemory = None

FOREVER = 1 << 30
GOOD = (rl.OutOfMemoryError, MemoryError)
MOST = 4000  # allocations of one program
PATIENCE = {"one": 0, "all": 0, "python": 8}  # attempts in which none has failed: then it is over


@functools.cache
def injection():
    library = ctypes.PyDLL(None)
    for name in (b"rushlight/_C.", b"libstdc++.so"):
        assert library.watch_module(name), name
    return library


def failed_at():
    text = ctypes.create_string_buffer(8192)
    injection().failed_at(text, len(text))
    lines = [line.split(" ") for line in text.value.decode().splitlines()]
    return " ".join(offset for file, offset in lines if "rushlight/_C." in file)


# ---- programs: functions that make (what must stay as it is, a call)


def _reachable(value, found=None):
    """The tensors of a result or of arguments, in order."""
    found = [] if found is None else found
    if isinstance(value, rl.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _reachable(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _reachable(item, found)
    return found


def _leaves(call):
    wanted = call.differentiable()
    made = {}

    def convert(array):
        if id(array) not in made:
            made[id(array)] = array.tensor(rl)
            if any(array is one for one in wanted) and made[id(array)].is_floating_point():
                made[id(array)].requires_grad_()
        return made[id(array)]

    args, named = call.arguments(convert)
    args, named = of_library(rl, args), of_library(rl, named)
    return args, named, [t for t in made.values() if t.requires_grad]


def sample(op, number, form):
    dtype = "float32"
    if op.row.kind == "elementwise" and dtype not in op.row.dtypes:
        dtype = "int64"
    f = function(rl, op.python_names[0])

    def make():
        call = case(op, number, dtype)
        args, named, leaves = _leaves(call)
        if form == "forward":
            with rl.no_grad():
                args, named = tree_detach(args), tree_detach(named)
            return [args, named], lambda: f(*args, **named)
        if form == "out":
            args, named = tree_detach(args), tree_detach(named)
            result = f(*args, **named)
            if not isinstance(result, rl.Tensor):
                raise Unusable
            out = rl.empty(0, dtype=result.dtype)
            return [args, named], lambda: f(*args, out=out, **named)
        if form == "in place":
            return [args, named], lambda: in_place(op, args, named, leaves)
        if not leaves:
            raise Unusable
        create = form == "double"

        def backward():
            outputs = [t for t in _reachable(f(*args, **named)) if t.requires_grad]
            if not outputs:
                raise Unusable
            grads = rl.autograd.grad(
                outputs, leaves, [rl.ones_like(t) for t in outputs], create_graph=create,
                allow_unused=True,
            )  # fmt: skip
            if create:
                again = [g for g in grads if g is not None and g.requires_grad]
                if again:
                    ones = [rl.ones_like(g) for g in again]
                    grads += rl.autograd.grad(again, leaves, ones, allow_unused=True)
            return grads

        return [args, named], backward

    return make


def in_place(op, args, named, leaves):
    """The method of that name with an underscore, on a copy, and its gradients."""
    method = getattr(rl.Tensor, f"{op.python_names[0].rpartition('.')[2]}_", None)
    if method is None or not args or not isinstance(args[0], rl.Tensor):
        raise Unusable
    changed = args[0].clone()
    method(changed, *args[1:], **named)
    if not changed.requires_grad:
        return changed
    return changed.detach(), rl.autograd.grad(changed.sum(), leaves, allow_unused=True)


def tree_detach(value):
    return tree_map(rl.Tensor.detach, value, rl.Tensor)


class Unusable(Exception):
    """There is no such form of this sample."""


FORMS = ("forward", "backward", "double", "out", "in place")
SAMPLES = [
    (op, number, form) for op in PUBLIC for number in range(len(texts_of(op))) for form in FORMS
]


STRIDE = 7919  # a prime


def program_of(seed):
    """(name, what makes it): the programs come first, then samples of all over the table."""
    seed %= len(SAMPLES) + len(PROGRAMS)
    if seed < len(PROGRAMS):
        name = list(PROGRAMS)[seed]
        return name, PROGRAMS[name]
    op, number, form = SAMPLES[(seed - len(PROGRAMS)) * STRIDE % len(SAMPLES)]
    return f"{op.full_name}-{number} {form}", sample(op, number, form)


# ---- one attempt


def digest(value):
    """What a result or an argument is, to be compared with `==`."""
    if isinstance(value, rl.Tensor):
        if value.layout != rl.strided or value.is_nested:
            return digest(list(value.unbind()) if value.is_nested else value.to_dense())
        plain = value.detach()
        plain = plain.resolve_conj().resolve_neg()
        wide = plain.float() if plain.dtype == rl.bfloat16 else plain
        return str(value.dtype), tuple(value.shape), wide.numpy().tobytes()
    if isinstance(value, (tuple, list)):
        return [digest(item) for item in value]
    if isinstance(value, dict):
        return {key: digest(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return value if isinstance(value, (str, bytes, int, bool, float, type(None))) else type(value)


def versions(value):
    return [t._version for t in _reachable(value) if not t.is_inference()]


def modes():
    return {
        "grad": rl.is_grad_enabled(),
        "inference": rl.is_inference_mode_enabled(),
        "function modes": _C._len_torch_function_stack(),
        "level": _C._current_level(),
        "threads": rl.get_num_threads(),
        "dtype": str(rl.get_default_dtype()),
        "node": _C._current_autograd_node() is None,
    }


class Attempt:
    """A program run with failing allocations from the n-th on, in a thread."""

    def __init__(self, make, how, first, expected):
        self.make, self.how, self.first = make, how, first
        self.expected, self.changes = expected
        self.failed, self.problems, self.place, self.raised = False, [], "", "no exception"
        self.run()

    def run(self):
        rl.manual_seed(0)
        kept, call = self.make()
        before, at = digest(kept), versions(kept)
        was = modes()
        rl.manual_seed(0)
        rl.empty_cache()
        try:
            result = self.fail(call)
        except GOOD as error:
            self.raised = type(error).__name__
            result = Unusable
        except Unusable:
            raise
        except BaseException as error:  # whatever it is, it is told
            self.raised = f"{type(error).__name__}: {error}"[:300]
            if self.failed:
                self.problems.append(f"raised {self.raised}")
            else:
                raise
            result = Unusable
        if self.raised == "no exception" and digest(result) != self.expected:
            self.problems.append(f"a wrong result: {digest(result)!r:.100}")
        del result
        if not self.failed:
            return
        if self.how != "python" and modes() != was:  # Python's own __exit__ takes memory
            self.problems.append(f"modes: {modes()}, not {was}")
        if not self.changes and digest(kept) != before:
            self.problems.append("changed its inputs")
        if not self.changes and versions(kept) != at:
            self.problems.append("changed the versions of its inputs")
        self.again(call)

    def fail(self, call):
        if self.how == "python":
            # Python does not count for us: an allocation that fails is one that raises.
            set_nomemory(self.first, self.first + 1)
            try:
                return call()
            except BaseException:
                self.failed = True
                raise
            finally:
                remove_mem_hooks()
        injection().begin_failing(self.first, FOREVER if self.how == "all" else 1)
        try:
            return call()
        finally:
            made = injection().end_failing()
            self.failed = made >= self.first
            if self.failed:
                self.place = failed_at()

    def again(self, call):
        rl.manual_seed(0)
        try:
            result = call()
        except BaseException as error:
            self.problems.append(f"again: {type(error).__name__}: {error}"[:300])
            return
        if not self.changes and digest(result) != self.expected:
            self.problems.append("another result afterwards")
        del result
        rl.manual_seed(0)
        _, call = self.make()
        rl.manual_seed(0)
        if digest(call()) != self.expected:
            self.problems.append("another result afterwards, from the beginning")


def in_thread(f):
    """f() in a thread of its own."""
    results = []

    def run():
        try:
            results.append((f(), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = results.pop()
    if error:
        raise error
    return result


def expected_of(make):
    """What a program gives, and whether it changes what it is given, as in-place operations do."""
    rl.manual_seed(0)
    kept, call = make()
    before, at = digest(kept), versions(kept)
    rl.manual_seed(0)
    result = digest(call())
    return result, not kept or (digest(kept), versions(kept)) != (before, at)


def live():
    return _C._live_tensors() + _C._live_nodes()


def attempt(make, how, first, expected):
    """The Attempt, with what it leaked among its problems."""
    before = live()
    if how == "python":  # whose allocations fail in any thread
        made = Attempt(make, how, first, expected)
    else:
        made = in_thread(lambda: Attempt(make, how, first, expected))
    for _ in range(3):
        if live() > before:
            gc.collect()
    if live() > before and how != "python":  # CPython 3.11 leaks arguments of calls that fail
        made.problems.append(f"leaks {live() - before}")
    return made


def run(seed, report):
    name, make = program_of(seed)
    _C._set_fills_uninitialized(True)  # or empty() would give what was there before
    try:
        in_thread(lambda: expected_of(make))  # what is done once, such as imports, is done
        expected = in_thread(lambda: expected_of(make))
    except (Unusable, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        if make in PROGRAMS.values():  # else the row does not take these arguments
            report.finding("program", f"{name}: {type(error).__name__}: {error}")
        return
    told = set()
    for how in os.environ.get("FUZZ_MEMORY", "one all").split():
        unharmed = 0
        for first in range(1, MOST):
            report.step(functools.partial("{}: {} {}".format, name, how, first))
            made = attempt(make, how, first, expected)
            for problem in made.problems:
                if (problem, made.place[:6]) not in told:
                    told.add((problem, made.place[:6]))
                    where = f"{name}: {how} {first} at {made.place}"
                    report.finding("memory", f"{problem} ({made.raised}) in {where}")
            unharmed = 0 if made.failed else unharmed + 1
            if unharmed > PATIENCE[how]:
                break
