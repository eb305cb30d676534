"""Bad calls of every row, and a process to make them in.

    python bad_input.py KIND FIRST LAST SKIP EVERY ROUNDS

KIND is one of KINDS: what is bad about the calls. The process says what it is about to call, one
call a line; a line that begins with BAD tells of an outcome that is no good error.
"""

import itertools
import math
import os
import random
import signal
import sys
import time

import sanitizers
from table import PUBLIC, Array, DType, case, function, texts_of, tree_map

import rushlight as rl

HUGE = 2**40
ROWS = [op for op in PUBLIC if texts_of(op)]
SLOW = 5  # seconds of CPU that a call may take


def bad_tensors(good):
    """What may come where the tensor `good` was expected."""
    yield from (None, "three", 1.5, [[1.0], [2.0, 3.0]], object(), float("nan"))
    for dtype in ("bool", "uint8", "int64", "float16", "bfloat16", "complex64"):
        if dtype != str(good.dtype).removeprefix("torch."):
            yield good.to(getattr(rl, dtype))
    yield rl.zeros(()).to(good.dtype)
    yield rl.zeros(0).to(good.dtype)
    yield rl.zeros(2, 0, 3).to(good.dtype)
    yield rl.zeros(0, 3).to(good.dtype)
    yield rl.zeros(3, 0).to(good.dtype)
    yield rl.ones(7).to(good.dtype)
    yield rl.ones(5, 7).to(good.dtype)
    yield rl.ones(2, 1, 2, 1, 2, 1, 2).to(good.dtype)
    yield rl.ones([1] * 64).to(good.dtype)
    yield rl.ones(1).to(good.dtype).expand(HUGE)
    yield rl.ones(1).to(good.dtype).expand(3, HUGE, 2**16)
    yield rl.ones(2, 3).to(good.dtype)[:, 0].expand(5, 2)
    yield rl.empty(0, 3, HUGE).to(good.dtype)
    if good.ndim:
        yield good.reshape(-1)[:1].expand(good.shape)  # every element in one place
        yield good[:0]
        yield good.unsqueeze(0).transpose(0, -1)
    if good.dtype != rl.bool:
        yield (good.double() if good.is_floating_point() else good) * -1000
        yield rl.full_like(good, 100)
    if good.is_floating_point():
        yield good * float("nan")
        yield rl.full_like(good, float("inf"))
        yield rl.full_like(good, rl.finfo(good.dtype).max)
        yield rl.zeros_like(good)
        yield good.clone().requires_grad_()
    if good.is_complex():
        yield good.conj()
    yield rl.empty(good.shape, dtype=good.dtype, device="meta")


def bad_values(value):
    """What may come where the plain argument `value` was expected."""
    if isinstance(value, (tuple, list)):
        kind, count = type(value), len(value)
        yield from (
            kind(),
            kind([*value, 1]),
            kind(value[:1]),
            kind([2**63 - 1] * 2),
            kind([2**70]),
        )
        for one in (
            -1,
            0,
            1,
            100,
            HUGE,
            2**31,
            2**63 - 1,
            -(2**63),
            None,
            "a",
            1.5,
            rl.zeros(0),
            rl.ones(3),
        ):
            yield kind([one] * count)
            if count > 1:
                yield kind([*value[:-1], one])
        yield kind([1] * 65)
        yield kind([value, value])
    yield from (None, "a", object(), -1, 0, 1000, HUGE, -HUGE, 2**31, 2**63 - 1, -(2**63), 2**70)
    yield from (
        math.nan,
        math.inf,
        -math.inf,
        1e300,
        5e-324,
        1j,
        True,
        [],
        [1, 2, 3],
        (-1, -1),
        (HUGE,),
    )
    yield from (
        rl.zeros(()),
        rl.ones(2, 2),
        rl.float32,
        rl.complex64,
        rl.bool,
        rl.device("meta"),
        rl.zeros(3, dtype=rl.int64),
    )


def bad_ones(original, good):
    return bad_tensors(good) if isinstance(original, Array) else bad_values(good)


def replaced(call, place, other):
    """(args, named) with another value at a place of either."""
    args, named = call
    if isinstance(place, str):
        return args, {**named, place: other}
    return args[:place] + (other,) + args[place + 1 :], named


def bad_outs(tensors):
    """What may come for `out`: wrong, or memory that the call reads."""
    yield from (
        "a",
        [],
        [None],
        (rl.zeros(3),) * 2,
        rl.zeros(3, dtype=rl.int16),
        rl.zeros(3, dtype=rl.bool),
    )
    yield from (
        rl.zeros(3, dtype=dtype) for dtype in (rl.int64, rl.complex64, rl.float16, rl.float64)
    )
    yield rl.zeros(1).expand(2, 3)
    yield rl.zeros(2, 3).requires_grad_()
    yield rl.empty(2, 3, device="meta")
    yield rl.from_numpy(rl.zeros(2, 3, dtype=rl.float64).numpy())
    for tensor in tensors:
        yield tensor
        yield (tensor, tensor)
        if tensor.ndim:
            yield tensor[:1]
            yield tensor.detach().as_strided([max(tensor.numel() - 1, 0)], [1], 0)
            yield rl.zeros(1).to(tensor.dtype).expand(tensor.shape)


def bad_calls_of(op, number, rounds):
    """(name, args, named) of the bad calls that one sample of a row gives, always the same ones."""
    sample = case(op, number)
    made = sample.arguments(lambda array: array.tensor(rl))
    args, named = (tree_map(lambda d: getattr(rl, d.name), v, DType) for v in made)
    tensors = []
    tree_map(tensors.append, (args, named), rl.Tensor)
    places = [*range(len(args)), *named]
    originals = {**dict(enumerate(sample.args)), **sample.named}
    goods = {**dict(enumerate(args)), **named}
    calls = [
        replaced((args, named), p, other)
        for p in places
        for other in bad_ones(originals[p], goods[p])
    ]
    calls += [(args[:-1], named), ((*args, 1), named), ((), {}), (args, {**named, "nonsense": 1})]
    calls += [(args, {**named, "out": out}) for out in bad_outs(tensors)]
    for place in places:  # lists of tensors
        if isinstance(goods[place], (list, tuple)) and any(
            isinstance(t, rl.Tensor) for t in goods[place]
        ):
            first = goods[place][0]
            calls += [
                replaced((args, named), place, [*goods[place], other])
                for other in bad_tensors(first)
            ]
    rng = random.Random(f"{op.full_name} {number}")
    for _ in range(rounds if len(places) > 1 else 0):  # two at once
        changed = args, named
        for place in rng.sample(places, 2):
            others = list(bad_ones(originals[place], goods[place]))
            changed = replaced(changed, place, rng.choice(others))
        calls.append(changed)
    names = op.python_names[:1]
    if op.row.inplace:
        names = [*names, *[n + "_" for n in op.python_names if n.startswith("Tensor.")][:1]]
    for name in names:
        for call in calls:
            if not (name.endswith("_") and "out" in call[1]):
                yield name, *call


def of_other_dims(good):
    """`good` with fewer dims, down to none, and with more: ones of the others' sizes agree."""
    for dropped in range(1, good.ndim + 1):
        if 0 in good.shape:
            yield good.new_ones(good.shape[dropped:])
            yield good.new_ones(good.shape[: good.ndim - dropped])
        else:
            yield good[(0,) * dropped]
            yield good[(..., *(0,) * dropped)]
    for added in (1, 2):
        yield good[(None,) * added]
        yield good[(..., *(None,) * added)]


def with_tensors(call, others):
    """(args, named) with others[i] in place of the i-th tensor, also in lists."""
    count = itertools.count()
    return tree_map(lambda tensor: others.get(next(count), tensor), call, rl.Tensor)


def calls_of_other_dims(op, number, rounds):
    """The calls of one sample of a row whose tensors have other numbers of dims than the row's: one
    of them, all of them, in `rounds` calls two of them, and those that the sample leaves out.
    """
    sample = case(op, number)
    made = sample.arguments(lambda array: array.tensor(rl))
    args, named = (tree_map(lambda d: getattr(rl, d.name), v, DType) for v in made)
    tensors = []
    tree_map(tensors.append, (args, named), rl.Tensor)
    others = [list(of_other_dims(tensor)) for tensor in tensors]
    calls = [
        with_tensors((args, named), {i: other}) for i in range(len(tensors)) for other in others[i]
    ]
    if len(tensors) > 1:
        at = range(max(map(len, others)))
        together = [{i: o[min(n, len(o) - 1)] for i, o in enumerate(others)} for n in at]
        together += [dict(enumerate([o[-n] for o in others])) for n in range(1, 5)]
        rng = random.Random(f"{op.full_name} {number}")
        for _ in range(rounds):
            i, j = rng.sample(range(len(tensors)), 2)
            together.append({i: rng.choice(others[i]), j: rng.choice(others[j])})
        calls += [with_tensors((args, named), changed) for changed in together]
    for place, parameter in enumerate(op.signature.parameters):
        name = parameter.name.rstrip("_")
        absent = place >= len(args) or args[place] is None
        if parameter.is_tensor and absent and named.get(name) is None:
            for ndim, dtype in itertools.product(range(5), (rl.float64, rl.int64)):
                optional = rl.ones([2] * ndim, dtype=dtype)
                if place < len(args):
                    calls.append(replaced((args, named), place, optional))
                else:
                    calls.append((args, {**named, name: optional}))
    names = op.python_names[:1]
    if op.row.inplace:
        names = [*names, *[n + "_" for n in op.python_names if n.startswith("Tensor.")][:1]]
    for name in names:
        for call in calls:
            yield name, *call


KINDS = {"values": bad_calls_of, "dims": calls_of_other_dims}


def fresh(value):
    """A copy of the arguments, as calls in place change them; expanded ones stay as they are."""

    def copy(tensor):
        if 0 in tensor.stride() or tensor.is_meta or tensor.requires_grad:
            return tensor
        return tensor.clone()

    return tree_map(copy, value, rl.Tensor)


def differentiable(value):
    """A copy of the arguments whose floating point tensors want gradients, and these."""
    leaves = []

    def leaf(tensor):
        if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() > 1e6:
            return tensor
        leaves.append(tensor.detach().clone().requires_grad_())
        return leaves[-1]

    return tree_map(leaf, value, rl.Tensor), leaves


def backward(op, name, args, named):
    """The gradients of a call that returned."""
    (args, named), leaves = differentiable((args, named))
    if not leaves or "out" in named or name.endswith("_"):
        return
    result = function(rl, name)(*args, **named)
    results = []
    tree_map(results.append, result, rl.Tensor)
    results = [r for r in results if r.requires_grad and r.numel() < 1e6]
    if results:
        rl.autograd.grad(results, leaves, [rl.ones_like(r) for r in results], allow_unused=True)


def is_good_error(error):
    """Whether an exception's message is one of ours or of the argument parser."""
    text = str(error)
    if text.startswith("CUDA is not available"):  # torch's class for it
        return isinstance(error, AssertionError)
    return (
        not isinstance(error, (SystemError, AssertionError))
        and text
        and not any(
            sign in text
            for sign in ("std::", "vector::", "basic_string", "could not create", "bad_alloc")
        )
    )


def describe(value, levels=10):
    if isinstance(value, (tuple, list, dict)) and levels == 0:
        return "..."
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(describe(v, levels - 1) for v in value[:20]) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={describe(v, levels - 1)}" for k, v in value.items()) + "}"
    if isinstance(value, rl.Tensor):
        kind = f"{value.dtype}{tuple(value.shape[:10])}".removeprefix("torch.")
        expanded = value.layout == rl.strided and 0 in value.stride()
        return f"{kind}{' meta' if value.is_meta else ''}{' expanded' if expanded else ''}"
    return repr(value)[:40] if type(value) is not object else "object()"


def attempt(op, name, args, named):
    """Make one call, and say what is wrong with its outcome."""
    started = time.process_time()
    try:
        args, named = fresh((args, named))
        function(rl, name)(*args, **named)
        backward(op, name, args, named)
    except Exception as error:
        if not is_good_error(error):
            print(f"BAD {type(error).__name__} {error}", flush=True)
        if VERBOSE:
            print(f"    {type(error).__name__} {str(error)[:300]}", flush=True)
    if time.process_time() - started > SLOW:
        print(f"BAD {time.process_time() - started:.0f} s", flush=True)


def attempt_for_a_while(*call):
    """Make one call in a process that ends after 0.2 s: some would read 2**40 elements."""
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, 0.2)
        attempt(*call)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGPROF):
        print(f"BAD exit {status}", flush=True)


def is_long(value):
    found = []
    tree_map(found.append, value, rl.Tensor)
    return any(tensor.numel() > 2**32 and not tensor.is_meta for tensor in found)


def worker(kind, first, last, skip, every, rounds):
    """Make bad calls of ROWS[first:last], one of `every`, leaving out the first `skip` ones."""
    import faulthandler
    import resource
    import warnings

    faulthandler.enable()
    warnings.simplefilter("ignore")
    if not sanitizers.ADDRESS:  # which reserves the whole address space
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    rl.set_num_threads(1 if every > 1 else 2)
    count = 0
    for op in ROWS[first:last]:
        for number in range(len(texts_of(op)) if every == 1 else 1):
            for name, args, named in KINDS[kind](op, number, rounds):
                count += 1
                if count <= skip or count % every:
                    continue
                print(f"{count} {name} {describe((args, named))}", flush=True)
                (attempt_for_a_while if is_long((args, named)) else attempt)(op, name, args, named)


VERBOSE = False

if __name__ == "__main__":
    VERBOSE = len(sys.argv) > 7
    worker(sys.argv[1], *map(int, sys.argv[2:7]))
