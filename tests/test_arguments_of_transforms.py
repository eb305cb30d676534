"""Every argument of what differentiates, transforms and checkpoints functions does something: with
another value than its default something changes, or it raises an error or a warning. What does not
is listed with its reason, and the list is no longer than it must be.
"""

import contextlib
import gc

import pytest
from options import found, ignored, in_python

import rushlight as rl
from rushlight.autograd import forward_ad, gradcheck, gradgradcheck
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.nn.utils import stateless
from rushlight.profiler import profile
from rushlight.utils import checkpoint as checkpoints

NOT_HERE = "of devices that are not there"
ONE_WAY = "chooses among ways to compute the same"
CAST = "gradients have the dtypes of their inputs before anybody sees them, as in torch"
SPARSE = "is about sparse inputs: test_autograd_functional.py"
AS_IT_IS = "nothing is removed: docs/differences.md"
NO_EFFECT = {
    "autograd.functional.hessian": {"vectorize": ONE_WAY},
    "autograd.functional.jacobian": {"vectorize": ONE_WAY},
    "autograd.gradcheck": {"check_grad_dtypes": CAST, "masked": SPARSE},
    "autograd.gradgradcheck": {"check_grad_dtypes": CAST, "masked": SPARSE},
    "autograd.graph.save_on_cpu": {"device_type": NOT_HERE, "pin_memory": NOT_HERE},
    "func.functionalize": {"remove": AS_IT_IS},
}


def leaf(*shape, dtype=rl.float64):
    numbers = rl.arange(1.0, 1 + rl.Size(shape).numel(), dtype=dtype) / 4
    return numbers.reshape(shape).requires_grad_()


def grads(*leaves):
    return [(t.grad, t.grad is not None and t.grad.requires_grad) for t in leaves]


# ---- rushlight.autograd


def backed(**named):
    x, y = leaf(3), leaf(3)
    out = (x * x * y).sum()
    rl.autograd.backward(**{"tensors": out, **named})
    try:
        out.backward()
    except RuntimeError as error:
        return grads(x, y), str(error)
    return grads(x, y), "again"


def differentiated(**named):
    x, y, other = leaf(3), leaf(3), leaf(2)
    out = x * x * y
    if not named.keys() & {"grad_outputs", "is_grads_batched"}:
        out = out.sum()
    if "is_grads_batched" in named:
        named["grad_outputs"] = rl.eye(3, dtype=rl.float64)
    inputs = [x, other] if named.keys() & {"allow_unused", "materialize_grads"} else [x]
    got = rl.autograd.grad(out, inputs, **{"allow_unused": len(inputs) > 1, **named})
    try:
        out.sum().backward()
    except RuntimeError as error:
        return got, str(error)
    return got, "again"


def unused(**named):
    x, other = leaf(3), leaf(2)
    return rl.autograd.grad((x * x).sum(), [x, other], **{"allow_unused": True, **named})


def refused_if_unused(**named):
    x, other = leaf(3), leaf(2)
    try:
        return rl.autograd.grad((x * x).sum(), [x, other], **named)
    except RuntimeError as error:
        return str(error)


class Wrong(rl.autograd.Function):
    """Its gradient is a little wrong, or another at each call, or computed a few times alone."""

    calls = 0

    @staticmethod
    def forward(ctx, x, how):
        ctx.how = how
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Wrong.calls += 1
        if ctx.how == "jitter":
            return grad * (2 + 1e-9 * (Wrong.calls % 7)), None
        if isinstance(ctx.how, int):
            if Wrong.calls > ctx.how:
                raise RuntimeError("called too often")
            return grad * 2, None
        return grad * (2 + float(ctx.how)), None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * 3


class Fussy(rl.autograd.Function):
    """Its backward cannot do with some gradients, and gives some in another dtype."""

    @staticmethod
    def forward(ctx, x, how):
        ctx.set_materialize_grads(False)
        ctx.how = how
        return (x * 2, x * 3) if how == "undefined" else x * 2

    @staticmethod
    def backward(ctx, *grads):
        if ctx.how == "undefined":
            if grads[0] is None and grads[1] is None:
                raise RuntimeError("both gradients are undefined")
            return sum(f * g for f, g in zip((2, 3), grads) if g is not None), None
        if ctx.how == "contiguous" and grads[0] is not None and not grads[0].is_contiguous():
            raise RuntimeError("the gradient is not contiguous")
        if ctx.how == "narrow" and grads[0] is not None:
            return (grads[0] * 2).float(), None
        return grads[0] and grads[0] * 2, None


def checked(check, function, *inputs):
    def run(**named):
        Wrong.calls = 0
        try:
            return check(function, inputs, **named)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return run


CHECKS = [
    lambda x: x.tanh(),
    lambda x: x * x.detach().numpy().size,
    lambda x: Wrong.apply(x, 1e-4),
    lambda x: Wrong.apply(x, 1e-9),
    lambda x: Wrong.apply(x, "jitter"),
    *(lambda x, most=most: Wrong.apply(x, most) for most in range(4, 40, 3)),
    lambda x: (x * 1e5).sin(),
    lambda x: x.to(rl.float32).to(rl.float64) * 2,
    *(lambda x, how=how: Fussy.apply(x, how)
      for how in ("undefined", "contiguous", "narrow")),
]  # fmt: skip


class Once(rl.autograd.Function):
    """Whose second derivative is a little wrong, or another at each call."""

    @staticmethod
    def forward(ctx, x, how="wrong"):
        ctx.save_for_backward(x)
        ctx.how = how
        return x**3

    @staticmethod
    def backward(ctx, grad):
        return OnceAgain.apply(grad, *ctx.saved_tensors, ctx.how), None


class OnceAgain(rl.autograd.Function):
    @staticmethod
    def forward(ctx, grad, x, how):
        ctx.save_for_backward(grad, x)
        ctx.set_materialize_grads(False)
        ctx.how = how
        return grad * 3 * x**2

    @staticmethod
    def backward(ctx, again):
        grad, x = ctx.saved_tensors
        Wrong.calls += 1
        if ctx.how == "undefined" and again is None:
            raise RuntimeError("the gradient is undefined")
        if isinstance(ctx.how, int) and Wrong.calls > ctx.how:
            raise RuntimeError("called too often")
        error = {"jitter": 1e-9 * (Wrong.calls % 7), "wrong": 1e-4}.get(ctx.how, 0.0)
        return again * 3 * x**2, again * grad * 6 * x * (1 + error), None


def anomaly(of):
    def run(check_nan=True):
        x = rl.zeros(2, requires_grad=True)
        try:
            with of(rl, check_nan):
                (x.sqrt() * 0).sum().backward()
        except RuntimeError as error:
            return str(error)[:40]
        return "no error"

    return run


def made_variable(**named):
    v = rl.autograd.Variable(**{"data": rl.ones(2), **named})
    return v.tolist(), v.requires_grad, v.volatile


def laid_out(**named):
    x = rl.ones(2, 3).t().requires_grad_()
    with rl.autograd.enforce_grad_layout_policy(**named):
        (x * rl.ones(3, 2)).sum().backward()
    y = rl.ones(2, 3).t().requires_grad_()
    with rl.autograd.enforce_grad_layout_policy(**named):
        y.backward(rl.ones(3, 2))
    return x.grad.stride(), y.grad.stride()


def cube(x):
    return (x**3).sum()


def constant(x):
    return rl.ones((), dtype=rl.float64) * x.detach().sum()


def of_functional(name, *more):
    function = getattr(rl.autograd.functional, name)

    def run(of=cube, **named):
        try:
            return function(of, leaf(3).detach(), *(() if "v" in named else more), **named)
        except RuntimeError as error:  # without a vector
            return str(error)[:50]

    def without(**named):
        try:
            return run(constant, **named)
        except RuntimeError as error:
            return str(error)[:50]

    return [run, without]


def vector():
    return rl.tensor([1.0, 2.0, 3.0], dtype=rl.float64)


def dual(**named):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(vector(), vector() * 2, **named)).tangent


def unpacked(**named):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(forward_ad.make_dual(vector(), vector()), **named).tangent


def left_level(**named):
    forward_ad.enter_dual_level()
    try:
        forward_ad.exit_dual_level(**named)
    except RuntimeError as error:
        forward_ad.exit_dual_level()
        return str(error)
    return "left"


def hooked(**named):
    x, y, calls = leaf(2), leaf(2), []
    handle = rl.autograd.graph.register_multi_grad_hook([x, y], calls.append, **named)
    x.sum().backward()
    handle.remove()
    return calls


def kept_on_cpu(**named):
    x = leaf(2)
    with rl.autograd.graph.save_on_cpu(**named):
        out = (x * x).sum()
    out.backward()
    return grads(x)


# ---- rushlight.func


def pair(x, y):
    return (x * x * y).sum()


def with_aux(x, y):
    return (x * x * y).sum(), y.sum()


def transformed(name):
    transform = getattr(rl.func, name)

    def run(**named):
        function = with_aux if named.get("has_aux") else pair
        return transform(function, **named)(vector(), vector() * 2)

    def drawn(**named):
        return transform(lambda x: x * rl.rand(3, dtype=rl.float64), **named)(vector())

    def events(**named):  # which tell how many derivatives are computed together
        with profile() as prof:
            transform(lambda x: x.sin() * x, **named)(vector())
        return len(prof.events())

    return [run, drawn, events]


def jvp(**named):
    def function(x):
        return (x * 2, x) if named.get("has_aux") else x * 2

    return rl.func.jvp(function, (vector(),), (vector(),), **named)


def jvp_of_a_constant(**named):
    try:
        return rl.func.jvp(lambda x: vector(), (vector(),), (vector(),), **named)
    except RuntimeError as error:
        return str(error)


def vjp(**named):
    function = (lambda x: (x * 2, x)) if named.get("has_aux") else (lambda x: x * 2)
    out = rl.func.vjp(function, vector(), **named)
    return out[0], out[1](vector()), out[2:]


def functional(**named):
    call = {"x": vector()[None].float()} if "kwargs" in named else {}
    model = rl.nn.Linear(3, 3)
    named.pop("kwargs", None)
    if call:
        call = {"input": call["x"]}
        return rl.func.functional_call(model, dict(model.named_parameters()), (), call, **named)
    named.setdefault("args", (vector().float(),))
    return rl.func.functional_call(model, dict(model.named_parameters()), **named)


class Tied(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = rl.nn.Linear(2, 2, bias=False)
        self.second = rl.nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


def tied(function, name="first.weight"):
    def run(**named):
        named.setdefault("args", (rl.ones(1, 2),))
        named.pop("kwargs", None)
        try:
            return function(Tied(), {name: rl.eye(2) * 3}, **named)
        except RuntimeError as error:
            return str(error)[:40]

    return run


def strict(function):
    def run(**named):
        try:
            one = rl.ones(1, 1)
            return function(rl.nn.Linear(1, 1), {"weight": one}, (one,), **named)
        except RuntimeError as error:
            return str(error)[:40]

    return run


def vmapped(**named):
    return rl.vmap(lambda x: x * 2 + rl.rand(()), **{"randomness": "same", **named})(rl.ones(3, 3))


def vmapped_plainly(**named):
    sizes = []
    out = rl.vmap(lambda x: sizes.append(1) or x.cumsum(0), **named)(rl.ones(4, 4))
    return out, len(sizes)


def drawn_in_vmap(**named):
    return rl.vmap(lambda x: x + rl.rand(()), **named)(rl.ones(3, 3))


def functionalized(**named):
    changed = rl.func.functionalize(lambda x: x.view(-1).add_(1), **named)
    graph = make_fx(changed)(rl.ones(2, 2))
    return [str(node.target) for node in graph.graph.nodes]


# ---- rushlight.utils.checkpoint


ENTERED = []


def again(**named):
    x, runs = leaf(3), []
    ENTERED.clear()

    def part(x):
        runs.append(1)
        return (x.sin().cos() * 2).exp()

    out = checkpoints.checkpoint(part, x, **{"use_reentrant": False, **named})
    name = out.grad_fn.name()
    out.sum().backward()
    return grads(x), name, len(runs), len(ENTERED)


def another_each_time(**named):
    x, runs = leaf(3), []

    def part(x):
        runs.append(1)
        return x[: 3 if len(runs) == 1 else 2].sin().sum()

    try:
        checkpoints.checkpoint(part, x, **{"use_reentrant": False, **named}).backward()
    except RuntimeError as error:
        return str(error)
    return grads(x)


def stopped_early(**named):
    x, ends = leaf(3), []

    def part(x):
        y = x.sin()
        ends.append(0)
        z = y * 2
        ends.append(1)
        return z

    checkpoints.checkpoint(part, x, **{"use_reentrant": False, **named}).sum().backward()
    return ends


def one_after_the_other(**named):
    x = leaf(3)
    out = checkpoints.checkpoint_sequential([rl.nn.Tanh(), rl.nn.ReLU()], 2, x, **named)
    name = out.grad_fn.next_functions[0][0].name()
    out.sum().backward()
    return name, grads(x)


def policy(ctx, op, *args, **kwargs):
    return checkpoints.CheckpointPolicy.MUST_SAVE


@contextlib.contextmanager
def entered():
    ENTERED.append(1)
    yield


def contexts():
    return entered(), entered()


def changed_in_place(**named):
    x = leaf(3)

    def part(x):
        y = x.sin()
        z = y * y
        y.detach().mul_(2)
        return z

    try:
        checkpoints.checkpoint(
            part, x, use_reentrant=False,
            context_fn=lambda: checkpoints.create_selective_checkpoint_contexts(policy, **named),
        ).sum().backward()  # fmt: skip
    except RuntimeError as error:
        return str(error)[:60]
    return grads(x)


CASES = {
    "autograd.backward": [backed],
    "autograd.grad": [differentiated, unused, refused_if_unused],
    "autograd.gradcheck": [checked(gradcheck, f, leaf(2)) for f in CHECKS],
    "autograd.gradgradcheck": [
        *(checked(gradgradcheck, f, leaf(2)) for f in [*CHECKS, Once.apply]),
        *(checked(gradgradcheck, lambda x, how=how: Once.apply(x, how), leaf(2))
          for how in ("jitter", *range(4, 60, 3))),
        checked(gradgradcheck, lambda x, y: Once.apply(x * y, "undefined"), leaf(2), leaf(2))],
    "autograd.detect_anomaly": [anomaly(lambda T, c: T.autograd.detect_anomaly(c))],
    "autograd.set_detect_anomaly": [
        anomaly(lambda T, c: T.autograd.set_detect_anomaly(True, c))],
    "autograd.Variable": [made_variable],
    "autograd.enforce_grad_layout_policy": [laid_out],
    **{f"autograd.functional.{name}": of_functional(name) for name in ("hessian", "jacobian")},
    **{f"autograd.functional.{name}": [
        run for more in ((), (vector(),)) for run in of_functional(name, *more)]
       for name in ("hvp", "jvp", "vhp", "vjp")},
    "autograd.forward_ad.make_dual": [dual],
    "autograd.forward_ad.unpack_dual": [unpacked],
    "autograd.forward_ad.exit_dual_level": [left_level],
    "autograd.graph.register_multi_grad_hook": [hooked],
    "autograd.graph.save_on_cpu": [kept_on_cpu],
    **{f"func.{name}": transformed(name)[:1 + 2 * (name in ("jacfwd", "jacrev"))]
       for name in ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev")},
    "func.jvp": [jvp, jvp_of_a_constant], "func.vjp": [vjp],
    "func.functional_call": [
        functional, tied(rl.func.functional_call), strict(rl.func.functional_call)],
    "nn.utils.stateless.functional_call": [
        functional, tied(stateless.functional_call), strict(stateless.functional_call)],
    "func.functionalize": [functionalized],
    "func.vmap": [vmapped, vmapped_plainly, drawn_in_vmap],
    "utils.checkpoint.checkpoint": [again, another_each_time, stopped_early],
    "utils.checkpoint.checkpoint_sequential": [one_after_the_other],
    "utils.checkpoint.create_selective_checkpoint_contexts": [changed_in_place],
}  # fmt: skip

# Other values of an argument than those of booleans and numbers, by function or for all of them.
NAMED = {
    "randomness": ["different", "same"], "chunk_size": [1, 2], "argnums": [1, (0, 1)],
    "level": [3], "args": [(rl.ones(3) * 2,)], "kwargs": [{}],
}  # fmt: skip
VALUES = {
    "autograd.backward": {
        "tensors": [None], "grad_tensors": [rl.tensor(2.0, dtype=rl.float64)],
        "grad_variables": [rl.tensor(2.0, dtype=rl.float64)], "inputs": [[leaf(3)]],
        "retain_graph": [True], "variables": [rl.ones(())], "retain_variables": [True]},
    "autograd.grad": {"grad_outputs": [vector()], "retain_graph": [True],
                      "allow_unused": [False, True]},
    "autograd.gradcheck": {"eps": [1e-1], "atol": [1e-12, 1.0], "rtol": [1e-12, 1.0],
                           "nondet_tol": [1e-6], "masked": [True]},
    "autograd.gradgradcheck": {"grad_outputs": [leaf(2) * 1e9, "wrong"], "eps": [1e-1],
                               "atol": [1e-12, 1.0], "rtol": [1e-12, 1.0], "nondet_tol": [1e-6],
                               "masked": [True]},
    "autograd.Variable": {"data": [rl.zeros(2)], "volatile": [True], "requires_grad": [True]},
    **{f"autograd.functional.{name}": {
        "v": [vector() * 3], "strategy": ["forward-mode", "other"],
        "outer_jacobian_strategy": ["forward-mode", "other"]}
       for name in ("hessian", "hvp", "jacobian", "jvp", "vhp", "vjp")},
    "autograd.graph.register_multi_grad_hook": {"mode": ["any"]},
    "autograd.graph.save_on_cpu": {"device_type": ["cpu"]},
    "func.functionalize": {"remove": ["mutations_and_views"]},
    "func.vmap": {"in_dims": [1], "out_dims": [1], "randomness": ["different", "same"],
                  "chunk_size": [1]},
    "utils.checkpoint.checkpoint": {
        "use_reentrant": [True, None], "context_fn": [contexts], "determinism_check": ["none"]},
    "utils.checkpoint.checkpoint_sequential": {"use_reentrant": [True, False]},
}  # fmt: skip

SPACES = ("autograd autograd.functional autograd.forward_ad autograd.graph func "
          "utils.checkpoint nn.utils.stateless").split()  # fmt: skip
# Those that hold what they are given, and decorators.
ELSEWHERE = {
    *(f"autograd.{name}" for name in ("enable_grad", "inference_mode", "no_grad")),
    "autograd.graph.GradientEdge", "autograd.forward_ad.NamedTuple",
    "autograd.forward_ad.tree_flatten", "utils.checkpoint.SelectiveCheckpointContext",
}  # fmt: skip


@pytest.fixture(autouse=True)
def always():
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    gc.collect()


@pytest.mark.parametrize("name", CASES)
def test_arguments(name):
    left = ignored(found(name), CASES[name], {**NAMED, **VALUES.get(name, {})})
    assert set(left) == set(NO_EFFECT.get(name, {}))


@pytest.mark.parametrize("space", SPACES)
def test_each_is_called(space):
    known = [found(name) for name in [*CASES, *ELSEWHERE]]
    assert not {name for name, value in in_python(space).items() if value not in known}
