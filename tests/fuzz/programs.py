"""Random programs of views, in-place changes, hooks, deletions and threads, beside torch where
there is one: after each step both have the same values, gradients and errors.
"""

import gc
import importlib
import importlib.util
import random
import re
import threading

import numpy as np

import rushlight as rl

STEPS = 40
TORCH = importlib.util.find_spec("torch") and importlib.import_module("torch")

# What torch refuses and rushlight does, on purpose (docs/differences.md); a program ends there.
DONE_HERE = re.compile(
    "modified by an inplace operation|modified inplace|returns multiple views"
    "|single memory location"
    "|no_grad mode before the forward|shares memory|not allowed because the Tensor has zero"
    "|saved tensor that has been detached in-place"  # rushlight only if its history is needed
    "|setStorage"  # an emptied tensor: both refuse it, we by the index that is out of bounds
)
# How torch's backward passes end that have begun.
UNDER_WAY = re.compile(
    "modified by an inplace|the graph a second time|moved into the graph|detached|invalid gradient"
)
LARGE = 1e9  # sin and softmax of larger numbers are made of their last bits


class LeftOut(Exception):
    """Raised by a step whose result is for each library to choose."""


def slices(rng):
    return rng.choice(
        [0, -1, slice(1, None), slice(None, None, 2), (..., 0), (..., slice(1, 2)), None]
    )


def _view(rng):
    at = slices(rng)
    return rng.choice([
        lambda T, t: t[at],
        lambda T, t: t.t() if t.dim() == 2 else t.transpose(0, -1),
        lambda T, t: t.reshape(-1),
        lambda T, t: t.view(-1),
        lambda T, t: t.unsqueeze(0),
        lambda T, t: t.squeeze(),
        lambda T, t: t.expand(2, *t.shape),
        lambda T, t: t.narrow(0, 0, 1),
        lambda T, t: t.diagonal(),
        lambda T, t: t.detach(),
        lambda T, t: t.unbind(0)[-1],
        lambda T, t: t.split(1)[0],
        lambda T, t: t.chunk(2, -1)[-1],
        lambda T, t: t.flatten(),
        lambda T, t: t.data,
        lambda T, t: t.view_as(t),
        lambda T, t: t.movedim(0, -1) if t.dim() else t[...],
        lambda T, t: t.unfold(0, 1, 1),
    ])  # fmt: skip


def _in_place(rng):
    at = slices(rng)
    n = rng.choice([0.5, -1.0, 2.0])
    return rng.choice([
        lambda T, t, o: t.add_(o),
        lambda T, t, o: t.mul_(n),
        lambda T, t, o: t.mul_(o),
        lambda T, t, o: t.copy_(o),
        lambda T, t, o: t.zero_(),
        lambda T, t, o: t.fill_(n),
        lambda T, t, o: t.sub_(o, alpha=n),
        lambda T, t, o: t.clamp_(min=n),
        lambda T, t, o: t.masked_fill_(t > 0, n),
        lambda T, t, o: t.__setitem__(at, n),
        lambda T, t, o: t.__setitem__(0, o),
        lambda T, t, o: t.relu_(),
        lambda T, t, o: t.unsqueeze_(0),
        lambda T, t, o: t.transpose_(0, -1),
        lambda T, t, o: t.detach_(),
        lambda T, t, o: t.exp_(),
        lambda T, t, o: t.index_fill_(0, T.tensor([0]), n),
        lambda T, t, o: t.addcmul_(o, o),
        lambda T, t, o: t.requires_grad_(n > 0),
    ])  # fmt: skip


def _compute(rng):
    n = rng.choice([0.5, -1.0, 2.0])
    return rng.choice([
        lambda T, t, o: t + o,
        lambda T, t, o: t * o,
        lambda T, t, o: t * n,
        lambda T, t, o: t.sin(),
        lambda T, t, o: t.sum(),
        lambda T, t, o: t.sum(0, keepdim=True),
        lambda T, t, o: T.cat([t, t]),
        lambda T, t, o: T.stack([t, t])[1],
        lambda T, t, o: t.clone(),
        lambda T, t, o: T.where(t > 0, t, o),
        lambda T, t, o: t.relu(),
        lambda T, t, o: t.cumsum(0),
        lambda T, t, o: t.max(),
        lambda T, t, o: t.tanh(),
        lambda T, t, o: t.flip(0),
        lambda T, t, o: t.softmax(-1),
        lambda T, t, o: t @ t.mT if t.dim() == 2 else t / 2,
    ])  # fmt: skip


class State:
    """The variables of a program in one library, and what its hooks have said."""

    def __init__(self, T):
        self.T, self.variables, self.said = T, {}, []


def attribute(t, name):
    """An attribute, or that it cannot be had: of a view whose history torch has lost."""
    try:
        return getattr(t, name)
    except RuntimeError:
        return RuntimeError


def numbers(t):
    return None if t is None else t.detach().numpy().copy()


def picture(state):
    """What a program can see of its variables."""
    seen = {}
    for name, t in state.variables.items():
        seen[name] = (
            tuple(t.shape), t.requires_grad, attribute(t, "is_leaf"), t._version,
            t.numel() and t.storage_offset(),
            numbers(t), numbers(t.grad) if attribute(t, "is_leaf") is True else None,
        )  # fmt: skip
    return seen, list(state.said)


def same(a, b):
    if a is RuntimeError or b is RuntimeError:
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        with np.errstate(all="ignore"):
            return a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def read_what_they_write(changed, other):
    """Whether torch's result hangs on the order of the elements; ours is of the old values."""
    mine, theirs = (t.detach().numpy() for t in (changed, other))

    def steps(a):  # a dim of one element may have any stride
        return [step for step, size in zip(a.strides, a.shape) if size > 1]

    return np.shares_memory(mine, theirs) and (
        mine.shape != theirs.shape
        or steps(mine) != steps(theirs)
        or mine.ctypes.data != theirs.ctypes.data
    )


def names_in_graph(node):
    """The names of a node and of all that it leads to."""
    ahead, seen = [node], {node}
    while ahead:
        for found, _ in ahead.pop().next_functions:
            if found is not None and found not in seen:
                seen.add(found)
                ahead.append(found)
    return {found.name() for found in seen}


def history_is_lost(t):
    """Whether a gradient of torch's view ends nowhere though it requires one: its base came to
    require a gradient later, or a base that requires none was changed (docs/differences.md)."""
    if not (t._is_view() and attribute(t, "requires_grad") is True):
        return False
    node = attribute(t, "grad_fn")
    if node is RuntimeError:
        return False
    node = node or t.expand_as(t).grad_fn
    return not any(name.endswith("AccumulateGrad") for name in names_in_graph(node))


def is_freed_by_its_kind(root):
    """Whether a second backward fails in torch for what changed a view, though it keeps nothing."""
    node = attribute(root, "grad_fn")
    return node not in (None, RuntimeError) and any(
        name.endswith("CopySlices") for name in names_in_graph(node)
    )


def is_large(t):
    size = np.abs(numbers(t))
    return bool(((size > LARGE) & np.isfinite(size)).any())


def leaves(state):
    """(is it a leaf, its shape if it is one that requires a gradient) by name."""
    found = {}
    for name, t in state.variables.items():
        is_leaf = attribute(t, "is_leaf")
        found[name] = is_leaf, tuple(t.shape) if is_leaf is True and t.requires_grad else None
    return found


def ends_here(state, text, before):
    """Whether the libraries may differ after a step of torch: see the rules above."""
    if any(history_is_lost(t) or is_large(t) for t in state.variables.values()):
        return True
    changed, now = text.split(",")[0], leaves(state)
    # torch's gradients of a leaf that was reshaped have its former shape while a graph knows it.
    if "unsqueeze_" in text or "transpose_" in text:
        return before[changed][1] not in (None, now[changed][1])
    # What views remember of the history that their base was detached from is torch's accident.
    return "detach_" in text and any(
        now[name][0] != before[name][0] for name in now if name != changed
    )


def attempt(step, state):
    """The class of the error that a step ends with, or None; its text."""
    try:
        step(state)
    except Exception as error:
        return type(error).__name__, str(error)
    finally:
        state.T.set_grad_enabled(True)
    return None, ""


def make_step(rng, names, fresh):
    """(text, function of a State): the same for both libraries."""
    kind = rng.randrange(16)
    if kind == 0 or len(names) < 2:
        shape, wants = rng.choice([(3,), (2, 3), (2, 2), (1, 4), ()]), rng.random() < 0.6
        values = np.round(np.random.default_rng(rng.randrange(2**32)).normal(size=shape), 2)

        def leaf(s):
            made = s.T.from_numpy(np.array(values))
            s.variables[fresh] = made.requires_grad_(wants)

        return f"{fresh} = leaf{shape} {wants}", leaf
    a, b = rng.choice(names), rng.choice(names)
    quiet = rng.random() < 0.15

    def guarded(s, action):
        with s.T.no_grad() if quiet else s.T.enable_grad():
            return action()

    if kind < 5:
        view = _view(rng)

        def look(s):  # torch gives views made under no_grad no gradient, though they require one
            s.variables[fresh] = view(s.T, s.variables[a])

        return f"{fresh} = view of {a} {source(view)}", look
    if kind < 9:
        change = _in_place(rng)

        def change_it(s):
            if TORCH and read_what_they_write(s.variables[a], s.variables[b]):
                raise LeftOut
            guarded(s, lambda: change(s.T, s.variables[a], s.variables[b]))

        return f"{a}, {b}: {source(change)} {quiet}", change_it
    if kind < 12:
        compute = _compute(rng)
        threaded = rng.random() < 0.2

        def work(s):
            def action():
                s.variables[fresh] = guarded(
                    s, lambda: compute(s.T, s.variables[a], s.variables[b])
                )

            if not threaded:
                return action()
            failed = []

            def in_thread():
                try:
                    action()
                except Exception as error:
                    failed.append(error)

            thread = threading.Thread(target=in_thread)
            thread.start()
            thread.join()
            if failed:
                raise failed.pop()

        return f"{fresh} = {a}, {b}: {source(compute)} {quiet} {threaded}", work
    if kind == 12:
        factor = rng.choice([None, 2.0, 0.0])

        def hook(s):
            said = s.said

            def call(g):
                said.append((a, numbers(g.sum())))
                return None if factor is None else g * factor

            s.variables[a].register_hook(call)

        return f"hook on {a} {factor}", hook
    if kind == 13:

        def forget(s):
            del s.variables[a]
            gc.collect(0)

        return f"del {a}", forget
    if kind == 14:
        again = rng.random() < 0.5

        def second(s):
            out = s.variables[a].sum()
            leaves = [t for t in s.variables.values() if t.is_leaf and t.requires_grad]
            got = s.T.autograd.grad(out, leaves, create_graph=again, allow_unused=True)
            s.said.append([numbers(g) for g in got])
            for g in got:
                if g is not None and again:
                    s.variables[fresh] = g.detach().clone()

        return f"grad of {a} {again}", second
    keep = rng.random() < 0.6
    return f"backward of {a} {keep}", lambda s: s.variables[a].sum().backward(retain_graph=keep)


def source(function):
    names = function.__code__.co_names
    return f"{function.__code__.co_firstlineno}:{'.'.join(names)}"


def run(seed, report):
    rng = random.Random(seed)
    ours = State(rl)
    theirs = State(TORCH) if TORCH else None
    if TORCH:
        TORCH.set_num_threads(1)
    for number in range(STEPS):
        names = [n for n in ours.variables if ours.variables[n].numel() < 500]
        text, step = make_step(rng, names, f"v{number % 12}")
        report.step(lambda: text)  # noqa: B023
        kind, message = attempt(step, ours)
        if kind == "SystemError":
            report.finding("bad error", f"step {number}: {text}: {message}")
        if not theirs:
            continue
        before = leaves(theirs)
        expected, reason = attempt(step, theirs)
        if kind != expected and "LeftOut" in (kind, expected):
            return
        again = expected and "through the graph a second time" in reason
        if again and not kind and is_freed_by_its_kind(theirs.variables[text.split()[2]]):
            return
        if kind != expected:
            if not DONE_HERE.search(reason + message):
                report.finding(
                    "other error",
                    f"step {number}: {text}: {kind} {message[:200]}, "
                    f"torch {expected} {reason[:99]}",
                )
            return
        # How far a backward pass had come when it ended in an error of both is a matter of order.
        if kind and (UNDER_WAY.search(reason) or DONE_HERE.search(reason)):
            return
        if ends_here(theirs, text, before):
            return
        mine, torchs = picture(ours), picture(theirs)
        if not same(list(mine[0].values()), list(torchs[0].values())) or not same(
            mine[1], torchs[1]
        ):
            wrong = [n for n in mine[0] if not same(mine[0][n], torchs[0].get(n))]
            detail = [(n, mine[0][n], torchs[0].get(n)) for n in wrong[:2]]
            detail = detail or [mine[1][-2:], torchs[1][-2:]]
            report.finding("differs", f"step {number}: {text}: {detail}".replace("\n", " "))
            return
