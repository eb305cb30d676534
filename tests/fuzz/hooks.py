"""Random programs of hooks beside torch: hooks of tensors, gradients, nodes, modules and saved
tensors that answer with what they should not, raise, remove themselves or each other, add hooks and
call backward again. After each step both libraries have called the same hooks with the same numbers
and have the same gradients and classes of errors.
"""

import importlib
import importlib.util
import random
import re
import warnings

import numpy as np

import rushlight as rl

STEPS = 24
TORCH = importlib.util.find_spec("torch") and importlib.import_module("torch")
SHAPE = (2, 3)


# What torch refuses and rushlight does; a program ends there. Changing a tensor in the hook that
# packs it is an error of both, after which the tensor may have changed or not.
TORCH_ALONE = re.compile(
    "passed to _will_engine_execute_node|pack hook is modifying its input in place"
    "|mutated during iteration"
)
# Errors of torch that come of looking into what a hook returned, or of an assert.
KINDER = re.compile(
    "KeyError|AssertionError|an invalid number of grad_(in|out)put|has no len|StopIteration"
)
# What torch says where it unpacks what a node has kept, or its hook does.
UNPACKING = re.compile("unpack_hook|through the graph a second time|Planned")


class Planned(Exception):
    """What a hook raises that is meant to."""


class State:
    """The objects of a program in one library, and what its hooks have said."""

    def __init__(self, T):
        self.T, self.tensors, self.modules, self.handles, self.said = T, {}, {}, {}, []
        self.depth = 0
        self.gave_none = self.nested = False  # since the step began: see excused
        self.of_several = set()

    def say(self, who, *what):
        self.said.append((who, *(numbers(part) for part in what)))


def numbers(value):
    """What can be compared with that of the other library."""
    if isinstance(value, (tuple, list)):
        return tuple(numbers(part) for part in value)
    if isinstance(value, dict):
        return tuple((key, numbers(part)) for key, part in value.items())
    if hasattr(value, "detach"):
        return np.array(value.detach().numpy())
    return value


# What a hook answers, given the library and what it got: tensors, tuples of them, or None.
ANSWERS = {
    "None": lambda T, g: None,
    "twice": lambda T, g: each(g, lambda t: t * 2),
    "the same": lambda T, g: g,
    "in place": lambda T, g: each(g, lambda t: t.detach().clone().mul_(2)),
    "None within": lambda T, g: (None,) * len(g) if isinstance(g, tuple) else None,
    "too many": lambda T, g: (*g, None) if isinstance(g, tuple) else (g, g),
    "another shape": lambda T, g: each(g, lambda t: t.new_ones(5)),
    "another dtype": lambda T, g: each(g, lambda t: t.double()),
    "a number": lambda T, g: 3,
    # No string: torch looks for a tensor in what a forward hook made, and a string holds itself.
    "bytes": lambda T, g: b"gradient",
    "a list": lambda T, g: list(g) if isinstance(g, tuple) else [g],
    "a dict": lambda T, g: {"g": g},
}  # fmt: skip
USUAL = ["None", "None", "twice", "the same", "in place"]


def each(value, change):
    if isinstance(value, tuple):
        return tuple(None if t is None else change(t) for t in value)
    return None if value is None else change(value)


# What a hook does beside its answer, given the state and the number of its handle.
def _raise(s, own, other):
    raise Planned


def _remove_itself(s, own, other):
    s.handles[own].remove()


def _remove_another(s, own, other):
    if other in s.handles:
        s.handles[other].remove()


def _add_another(s, own, other):
    where = s.handles.get("where" + own)
    if where is not None and s.depth < 2:
        where(lambda *a: s.say("added by " + own))


def _backward_elsewhere(s, own, other):
    if s.depth > 2:
        return
    s.depth += 1
    s.nested = True
    try:
        with s.T.enable_grad():
            x = s.T.ones(2, requires_grad=True)
            y = x * x
            y.register_hook(lambda g: s.say("inner", g))
            y.sum().backward()
            s.say("elsewhere", x.grad)
    finally:
        s.depth -= 1


def _backward_here(s, own, other):
    """Through a graph of the program itself, which may be the one that is under way."""
    if s.depth > 1 or not s.tensors:
        return
    s.depth += 1
    s.nested = True
    try:
        with s.T.enable_grad():
            t = s.tensors[min(s.tensors)]
            (t * 3).sum().backward()
    finally:
        s.depth -= 1


def _same_graph(s, own, other):
    t = s.tensors.get(max(s.tensors, default=None))
    if s.depth > 1 or t is None or not t.requires_grad:
        return
    s.depth += 1
    s.nested = True
    try:
        t.sum().backward(retain_graph=True)
    finally:
        s.depth -= 1


def _grad_mode(s, own, other):
    s.say("grad mode", s.T.is_grad_enabled())


DEEDS = {
    f.__name__: f
    for f in (_raise, _remove_itself, _remove_another, _add_another, _backward_elsewhere,
              _backward_here, _same_graph, _grad_mode)
}  # fmt: skip


# Where hooks are put: a name, and register(state, tensor or module, make) -> handle, with
# make(pick) a hook of any arguments that answers about pick(*arguments).
TENSOR_PLACES = {
    "tensor": lambda s, t, make: t.register_hook(make(lambda g: g)),
    "accumulated": lambda s, t, make: t.register_post_accumulate_grad_hook(make(lambda g: g)),
    "node": lambda s, t, make: t.grad_fn.register_hook(make(lambda i, o: i)),
    "node before": lambda s, t, make: t.grad_fn.register_prehook(make(lambda o: o)),
    "accumulator": lambda s, t, make: accumulator(s, t).register_hook(make(lambda i, o: i)),
    "accumulator before":
        lambda s, t, make: accumulator(s, t).register_prehook(make(lambda o: o)),
}  # fmt: skip


def _module_places():
    def of(method, pick, **options):
        def register(s, m, make):
            return getattr(m, method)(make(pick), **options)

        return register

    places = {}
    for suffix, options in {"": {}, " first": {"prepend": True}}.items():
        places["forward" + suffix] = of("register_forward_hook", lambda m, a, o: o, **options)
        places["forward before" + suffix] = of(
            "register_forward_pre_hook", lambda m, a: a, **options
        )
        places["backward" + suffix] = of(
            "register_full_backward_hook", lambda m, i, o: i, **options
        )
        places["backward before" + suffix] = of(
            "register_full_backward_pre_hook", lambda m, o: o, **options
        )
    places["forward always"] = of("register_forward_hook", lambda m, a, o: o, always_call=True)
    places["forward with kwargs"] = of(
        "register_forward_hook", lambda m, a, k, o: o, with_kwargs=True
    )
    places["forward before with kwargs"] = of(
        "register_forward_pre_hook", lambda m, a, k: (a, k), with_kwargs=True
    )
    places["old backward"] = of("register_backward_hook", lambda m, i, o: i)
    return places


MODULE_PLACES = _module_places()


def accumulator(s, t):
    return t.expand_as(t).grad_fn.next_functions[0][0]


def attempt(step, s):
    """The class of the error that a step ends with, or None; its text."""
    s.depth, s.gave_none, s.nested = 0, False, False
    try:
        step(s)
    except Exception as error:
        error.__traceback__ = None
        return type(error).__name__, str(error)
    finally:
        s.T.set_grad_enabled(True)
    return None, ""


def hook_maker(s, number, answer, deed, other):
    """make(pick) of a hook that says its arguments, does its deed and answers."""
    own = f"h{number}"

    def make(pick):
        def hook(*arguments):
            got = pick(*arguments)
            s.say(own, got)
            if deed:
                DEEDS[deed](s, own, other)
            answered = ANSWERS[answer](s.T, got)
            s.gave_none |= isinstance(answered, tuple) and any(t is None for t in answered)
            return answered

        return hook

    return make


class Program:
    """Makes the steps of one seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.tensors, self.modules, self.count = [], [], 0

    def fresh(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def steps(self):
        yield self.leaf()
        yield self.leaf()
        for _ in range(STEPS):
            kinds = [self.leaf, self.compute, self.compute, self.module, self.call, self.call,
                     self.tensor_hook, self.tensor_hook, self.tensor_hook, self.module_hook,
                     self.module_hook, self.remove, self.backward, self.backward, self.grad,
                     self.retain, self.saved, self.forget, self.several]  # fmt: skip
            yield self.rng.choice(kinds)()

    def any_tensor(self):
        return self.rng.choice(self.tensors[-6:])

    def leaf(self):
        name = self.fresh("t")
        values = np.round(np.random.default_rng(self.rng.randrange(2**32)).normal(size=SHAPE), 2)
        self.tensors.append(name)

        def step(s):
            leaf = s.T.from_numpy(np.array(values, np.float32))
            s.tensors[name] = leaf.requires_grad_()

        return f"{name} = leaf", step

    def operation(self):
        number = self.rng.choice([2.0, 0.5, -1.0])
        return self.rng.choice([
            ("a * b", lambda T, a, b: a * b), ("a + b", lambda T, a, b: a + b),
            ("a * number", lambda T, a, b: a * number), ("tanh", lambda T, a, b: a.tanh()),
            ("view", lambda T, a, b: a.t().t()), ("a - b", lambda T, a, b: a - b),
            ("square", lambda T, a, b: a**2), ("in place", lambda T, a, b: (a * 1).mul_(b)),
            ("custom", lambda T, a, b: custom(T).apply(a, b)[0]),
            ("unbind", lambda T, a, b: T.stack(a.unbind(0)[::-1])),
            ("detach", lambda T, a, b: (a.detach() + b)),
            ("exp", lambda T, a, b: (a * 0.1).exp()),
        ])  # fmt: skip

    def compute(self):
        name, a, b = self.fresh("t"), self.any_tensor(), self.any_tensor()
        text, operation = self.operation()
        self.tensors.append(name)

        def step(s):
            s.tensors[name] = operation(s.T, s.tensors[a], s.tensors[b])

        return f"{name} = {text} of {a}, {b}", step

    def module(self):
        name, kind = self.fresh("m"), self.rng.randrange(4)
        self.modules.append(name)

        def step(s):
            nn = s.T.nn
            m = [nn.Tanh, lambda: scale(s.T), lambda: nn.Sequential(nn.Tanh(), nn.Sigmoid()),
                 lambda: two_results(s.T)][kind]()  # fmt: skip
            for p in m.parameters():
                p.data.fill_(0.5)
            s.modules[name] = m

        return f"{name} = module {kind}", step

    def call(self):
        if not self.modules:
            return self.module()
        name, module, a = self.fresh("t"), self.rng.choice(self.modules), self.any_tensor()
        keyword = self.rng.random() < 0.2
        fails = self.rng.random() < 0.1
        self.tensors.append(name)

        def step(s):
            a_ = None if fails else s.tensors[a]
            out = s.modules[module](input=a_) if keyword else s.modules[module](a_)
            out = out[0] if isinstance(out, tuple) and out else out
            if not isinstance(out, s.T.Tensor):
                raise Planned(f"a hook made {type(out).__name__} of it")
            s.tensors[name] = out

        return f"{name} = {module}({'input=' * keyword}{a}) {fails}", step

    def conduct(self):
        answer = self.rng.choice(USUAL if self.rng.random() < 0.7 else list(ANSWERS))
        deed = self.rng.choice(list(DEEDS)) if self.rng.random() < 0.4 else None
        return answer, deed, f"h{self.rng.randrange(1, self.count + 3)}"

    def hook(self, places, kind, find):
        place, target = self.rng.choice(list(places)), find()
        number = int(self.fresh("h")[1:])
        conduct = self.conduct()

        def step(s):
            on, make = getattr(s, kind)[target], hook_maker(s, number, *conduct)

            def where(hook):
                return places[place](s, on, lambda pick: hook)

            s.handles[f"where{number}"] = s.handles[f"whereh{number}"] = where
            s.handles[f"h{number}"] = places[place](s, on, make)

        return f"h{number} on {target}, {place}: {conduct}", step

    def tensor_hook(self):
        return self.hook(TENSOR_PLACES, "tensors", self.any_tensor)

    def module_hook(self):
        if not self.modules:
            return self.module()
        return self.hook(MODULE_PLACES, "modules", lambda: self.rng.choice(self.modules))

    def several(self):
        """A hook for the gradients of several tensors."""
        a, b, mode = self.any_tensor(), self.any_tensor(), self.rng.choice(["all", "any"])
        name = self.fresh("h")
        raises = self.rng.random() < 0.2

        def step(s):
            def hook(grads):
                s.say(name, grads)
                if raises:
                    raise Planned

            s.of_several.add(name)
            pair = [s.tensors[a], s.tensors[b]]
            s.handles[name] = s.T.autograd.graph.register_multi_grad_hook(pair, hook, mode=mode)

        return f"{name} on {a} and {b}, {mode} {raises}", step

    def remove(self):
        number = self.rng.randrange(1, self.count + 1)

        def step(s):
            if f"h{number}" in s.handles:
                s.handles[f"h{number}"].remove()

        return f"remove h{number}", step

    def options(self):
        return {"retain_graph": self.rng.choice([None, True, True, False]),
                "create_graph": self.rng.random() < 0.15}  # fmt: skip

    def backward(self):
        a, options = self.any_tensor(), self.options()
        only = self.any_tensor() if self.rng.random() < 0.2 else None

        def step(s):
            inputs = {"inputs": [s.tensors[only]]} if only else {}
            s.tensors[a].sum().backward(**options, **inputs)

        return f"backward {a} {options} {only or ''}", step

    def grad(self):
        a, b, options = self.any_tensor(), self.any_tensor(), self.options()
        options["allow_unused"] = True

        def step(s):
            s.say("grad", s.T.autograd.grad(s.tensors[a].sum(), s.tensors[b], **options))

        return f"grad {a}, {b}, {options}", step

    def retain(self):
        a = self.any_tensor()
        return f"retain {a}", lambda s: s.tensors[a].retain_grad()

    def saved(self):
        """An operation whose saved tensors are packed and unpacked by hooks."""
        name, a, b = self.fresh("t"), self.any_tensor(), self.any_tensor()
        text, operation = self.operation()
        ill = self.rng.choice([None] * 6 + ["pack", "unpack", "pack None", "unpack None",
                               "unpack number", "disabled", "in place"])  # fmt: skip
        self.tensors.append(name)

        def step(s):
            graph = s.T.autograd.graph

            def pack(t):
                s.say("pack")
                if ill == "pack":
                    raise Planned
                if ill == "in place":
                    t.mul_(2)
                return None if ill == "pack None" else t.detach().clone()

            def unpack(t):
                s.say("unpack")
                if ill == "unpack":
                    raise Planned
                return {"unpack None": None, "unpack number": 3}.get(ill, t)

            if ill == "disabled":
                with graph.disable_saved_tensors_hooks("not here"):
                    with graph.saved_tensors_hooks(pack, unpack):
                        s.tensors[name] = operation(s.T, s.tensors[a], s.tensors[b])
            with graph.saved_tensors_hooks(pack, unpack):
                s.tensors[name] = operation(s.T, s.tensors[a], s.tensors[b])

        return f"{name} = {text} of {a}, {b} with saved hooks {ill}", step

    def forget(self):
        def step(s):
            for t in s.tensors.values():
                if t.is_leaf:
                    t.grad = None

        return "no gradients", step


def custom(T):
    class Scaled(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b, a + b

        @staticmethod
        def backward(ctx, first, second):
            a, b = ctx.saved_tensors
            return first * b + second, first * a + second

    return Scaled


def scale(T):
    class Scale(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = T.nn.Parameter(T.ones(SHAPE))

        def forward(self, input):
            return input * self.weight

    return Scale()


def two_results(T):
    class Two(T.nn.Module):
        def forward(self, input):
            return input * 2, input.detach()

    return Two()


def picture(s):
    seen = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, t in s.tensors.items():
            seen[name] = t.requires_grad, t.is_leaf, numbers(t), numbers(t.grad)
    return seen, list(s.said)


def same(a, b):
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        with np.errstate(all="ignore"):
            return a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def difference(text, states, outcomes):
    """How a step and all that can be seen after it differ between the libraries, or None."""
    (ours, our_text), (theirs, their_text) = outcomes
    refused = ours and theirs and KINDER.search(f"{theirs} {their_text}")
    if ours != theirs and not refused:
        return f"{text}: {ours} {our_text!r}, torch: {theirs} {their_text!r}"
    (seen, said), (wanted, heard) = map(picture, states)
    for i, (a, b) in enumerate(zip(said, heard)):
        if not same(a, b):
            return f"{text}: call {i}: {a}, torch: {b}"
    if len(said) != len(heard):
        return f"{text}: {len(said)} calls of hooks, torch {len(heard)}: {(said, heard)}"
    for name in wanted:
        if not same(seen.get(name), wanted[name]):
            return f"{text}: {name} is {seen.get(name)}, torch: {wanted[name]}"
    return None


def excused(states, outcomes):
    """Whether a difference is one of three known ones, where a program ends. torch unpacks what a
    node has kept though its gradient is None, which the node is not run for here; and its hooks for
    several tensors lose count where one backward pass runs in another."""
    (ours, our_text), (theirs, their_text) = outcomes
    if "in place of a gradient" in our_text and theirs:  # torch finds that out later
        return True
    left_out = set()
    if any(s.gave_none for s in states):
        if UNPACKING.search(f"{theirs} {their_text}"):
            return True
        left_out.add("unpack")
    if all(s.nested for s in states):
        left_out |= states[0].of_several
    heard = [[what for what in s.said if what[0] not in left_out] for s in states]
    return bool(left_out) and ours == theirs and same(*heard)


def run(seed, report):
    states = [State(rl), State(TORCH)] if TORCH else [State(rl)]
    for number, (text, step) in enumerate(Program(seed).steps()):
        report.step(lambda: text)  # noqa: B023
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes = [attempt(step, s) for s in states]
        if outcomes[0][0] == "SystemError":
            report.finding("bad error", f"step {number}: {text}: {outcomes[0][1]}")
        if TORCH and TORCH_ALONE.search(outcomes[1][1]):
            return
        different = difference(text, states, outcomes) if TORCH else None
        if different and excused(states, outcomes):
            return
        if different:
            report.finding("differs", f"step {number}: {different}".replace("\n", " "))
            return
        for s in states:
            s.said.clear()
