"""What hooks of every kind may return, beside torch: the same gradients, or an error too."""

import numpy
import pytest
from fuzz import hooks

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def answers(lib):
    """Given a gradient or an output, what a hook returns."""

    def sevens(*shape, **options):
        return lib.full(shape or (2,), 7.0, **options)

    return {
        "None": lambda g: None,
        "the same": lambda g: g,
        "a tensor": lambda g: sevens(),
        "twice": lambda g: g * 2 if isinstance(g, lib.Tensor) else g,
        "a tuple": lambda g: (sevens(),),
        "a tuple of two": lambda g: (sevens(), sevens()),
        "a list": lambda g: [sevens()],
        "a list of two": lambda g: [sevens(), sevens()],
        "a tuple of None": lambda g: (None,),
        "a tuple of two None": lambda g: (None, None),
        "an empty tuple": lambda g: (),
        "a number": lambda g: 3,
        "False": lambda g: False,
        "a string": lambda g: "a",
        "a dict": lambda g: {"a": 1},
        "an array": lambda g: numpy.ones(2),
        "another shape": lambda g: sevens(3),
        "one element": lambda g: sevens(1),
        "a double": lambda g: sevens(dtype=lib.float64),
        "a parameter": lambda g: lib.nn.Parameter(sevens()),
        "another shape in a tuple": lambda g: (sevens(3),),
    }


def on_a_leaf(lib, hook, x, w):
    x.register_hook(hook)
    return x * w


def on_a_computed(lib, hook, x, w):
    y = x * w
    y.register_hook(hook)
    return y * y


def before_another(lib, hook, x, w):
    y = x * w
    y.register_hook(hook)
    y.register_hook(lambda g: g * 2)
    return y * y


def after_accumulation(lib, hook, x, w):
    x.register_post_accumulate_grad_hook(hook)
    return x * w


def on_a_node(lib, hook, x, w):
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: hook(inputs[0]))
    return y * y


def before_a_node(lib, hook, x, w):
    y = x * w
    y.grad_fn.register_prehook(lambda outputs: hook(outputs[0]))
    return y * y


def before_an_accumulation(lib, hook, x, w):
    y = x * w
    y.grad_fn.next_functions[0][0].register_prehook(lambda outputs: hook(outputs[0]))
    return y * y


def of_a_module(register):
    def place(lib, hook, x, w):
        class Product(lib.nn.Module):
            def forward(self, x):
                return x * w

        module = Product()
        register(module, hook)
        return module(x).square()

    return place


PLACES = {
    **{
        f.__name__: f
        for f in (
            on_a_leaf,
            on_a_computed,
            before_another,
            after_accumulation,
            on_a_node,
            before_a_node,
            before_an_accumulation,
        )
    },  # fmt: skip
    "forward_pre": of_a_module(
        lambda m, h: m.register_forward_pre_hook(lambda m, args: h(args[0]))
    ),
    "forward_pre, with kwargs": of_a_module(
        lambda m, h: m.register_forward_pre_hook(
            lambda m, args, kwargs: h(args[0]), with_kwargs=True
        )
    ),
    "forward": of_a_module(lambda m, h: m.register_forward_hook(lambda m, args, out: h(out))),
    "forward, with kwargs": of_a_module(
        lambda m, h: m.register_forward_hook(lambda m, args, kwargs, out: h(out), with_kwargs=True)
    ),
    "full_backward": of_a_module(
        lambda m, h: m.register_full_backward_hook(lambda m, inputs, outputs: h(inputs[0]))
    ),
    "full_backward_pre": of_a_module(
        lambda m, h: m.register_full_backward_pre_hook(lambda m, outputs: h(outputs[0]))
    ),
    "old backward": of_a_module(
        lambda m, h: m.register_backward_hook(lambda m, inputs, outputs: h(inputs[0]))
    ),
}


def outcome(lib, place, answer):
    x = lib.arange(2.0).requires_grad_()
    w = lib.ones(2, requires_grad=True)
    try:
        PLACES[place](lib, answers(lib)[answer], x, w).sum().backward()
    except Exception as error:
        return type(error)
    return [None if t.grad is None else t.grad.tolist() for t in (x, w)]


# A gradient that is no tuple means a tuple of one here.
KINDER = {"on_a_node", "before_a_node", "before_an_accumulation", "full_backward",
          "full_backward_pre"}  # fmt: skip


@pytest.mark.keeps_tensors("an exception in torch's hook keeps the graph of its frame")
@pytest.mark.parametrize("place", PLACES)
def test_what_a_hook_returns(place):
    different = []
    for answer in answers(rl):
        expected, actual = outcome(torch, place, answer), outcome(rl, place, answer)
        if isinstance(expected, type) and (place in KINDER or isinstance(actual, type)):
            continue
        if actual != expected:
            different.append((answer, expected, actual))
    assert not different


def second_backward(lib):
    """Through what a full backward hook computed."""
    w = lib.ones(2, requires_grad=True)
    x = lib.arange(1.0, 3.0).requires_grad_()
    module = lib.nn.Tanh()
    module.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * w,))
    module(x).sum().backward(create_graph=True)
    x.grad.sum().backward(inputs=[w])
    x.grad = None
    return w.grad


def twice_through_modules(lib):
    x = lib.arange(1.0, 3.0).requires_grad_()
    module, calls = lib.nn.Sequential(lib.nn.Tanh(), lib.nn.Sigmoid()), []
    for part in module:
        part.register_full_backward_hook(lambda m, inputs, outputs: calls.append(1))
    (grad,) = lib.autograd.grad(module(x).sum(), x, create_graph=True)
    grad.sum().backward()
    return lib.cat([x.grad, lib.tensor([float(len(calls))])])


def outputs_that_are_no_tensors(lib):
    class Named(lib.nn.Module):
        def forward(self, x):
            return {"a": x * 2}

    x, module = lib.ones(2, requires_grad=True), Named()
    module.register_full_backward_hook(lambda m, inputs, outputs: None)
    module(x)["a"].sum().backward()
    return x.grad


@pytest.mark.parametrize(
    "program", [second_backward, twice_through_modules, outputs_that_are_no_tensors]
)
def test_gradients_that_pass_a_module_by(program):
    expected, actual = (numpy.array(program(lib).tolist()) for lib in (torch, rl))
    numpy.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_order_of_saved_tensors():
    programs = {
        "mul": lambda lib, a, b: a * b,
        "div": lambda lib, a, b: a / b,
        "atan2": lambda lib, a, b: lib.atan2(a, b),
        "maximum": lambda lib, a, b: lib.maximum(a, b),
        "hypot": lambda lib, a, b: lib.hypot(a, b),
        "mm": lambda lib, a, b: a @ b,
        "lerp": lambda lib, a, b: lib.lerp(a, b, a + 1),
        "addcmul": lambda lib, a, b: lib.addcmul(a, b, a + 1),
        "xlogy": lambda lib, a, b: lib.xlogy(a, b),
        "svd": lambda lib, a, b: lib.linalg.svd(a),
    }
    for name, program in programs.items():
        orders = []
        for lib in (torch, rl):
            seen = []

            def pack(t, seen=seen):
                seen.append(round(float(t.flatten()[0]), 3))
                return t

            a = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            b = (a.detach() + 5).requires_grad_()
            with lib.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                program(lib, a, b)
            orders.append(seen)
        assert orders[0] == orders[1], name


class Findings:
    """What a case of the fuzzer reports."""

    def __init__(self):
        self.found = []

    def step(self, describe):
        pass

    def finding(self, what, detail):
        self.found.append(f"{what}: {detail}")


@pytest.mark.keeps_tensors("an exception in torch's hook keeps the graph of its frame")
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_programs_of_hooks(first):
    """`python -m fuzz hooks` runs as many as one likes, and `--seed` one of them, step by step."""
    report = Findings()
    for seed in range(first, first + 50):
        hooks.run(seed, report)
        assert not report.found, f"--seed {seed}: {report.found}"


def test_a_number_is_not_packed():
    packed = []
    for lib in (torch, rl):
        x = lib.ones(2, requires_grad=True)
        with lib.autograd.graph.saved_tensors_hooks(packed.append, lambda t: t):
            2 * x * 3.0 / 2
        assert not packed


def test_a_node_whose_hook_raises_stays_whole():
    for lib in (torch, rl):
        x = lib.ones(2, requires_grad=True)
        y = x * x
        calls = []

        def fail(*grads, calls=calls):
            calls.append(1)
            if len(calls) == 1:
                raise KeyError

        y.grad_fn.register_hook(fail)
        with pytest.raises(KeyError):
            y.sum().backward()
        y.sum().backward()
        assert x.grad.tolist() == [2, 2] and len(calls) == 2


def test_what_hooks_of_saved_tensors_are_given():
    def seen_by(library):
        a = library.ones(3, requires_grad=True)
        b = library.ones(3, requires_grad=True) * 2
        seen = []

        def pack(x):
            node = x.grad_fn and x.grad_fn.name()
            seen.append((node, x.requires_grad, x is a, x is b, library.is_grad_enabled()))
            return x

        with library.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            y = a * b
            y.square().sum().backward()
        return seen, a.grad.tolist()

    assert seen_by(rl) == seen_by(torch)


@pytest.mark.parametrize(
    "place", ["register_full_backward_pre_hook", "register_full_backward_hook"]
)
@pytest.mark.parametrize("T", [rl, torch], ids=lambda T: T.__name__)
def test_a_backward_hook_that_returns_no_gradient_ends_the_pass(T, place):
    module, later = T.nn.Tanh(), []
    getattr(module, place)(lambda *_: 3)
    getattr(module, place)(lambda *_: later.append(1))
    out = module(T.ones(2, requires_grad=True)).sum()
    with pytest.raises(TypeError):
        out.backward()
    assert not later
