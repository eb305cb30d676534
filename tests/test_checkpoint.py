"""utils.checkpoint: the gradients of the plain computation, for less memory."""

import functools

import pytest

import rushlight
from rushlight import nn
from rushlight.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

BOTH = pytest.mark.parametrize("use_reentrant", [False, True])


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 4))


def gradients(model, run):
    rushlight.manual_seed(1)
    model.zero_grad()
    x = rushlight.linspace(0, 1, 12).view(3, 4).requires_grad_()
    run(x).square().sum().backward()
    following = rushlight.rand(1).item()
    return [x.grad, *(p.grad.clone() for p in model.parameters())], following


def equal(one, other):
    return one[1] == other[1] and all(rushlight.equal(a, b) for a, b in zip(one[0], other[0]))


@BOTH
def test_gradients_and_dropout_are_those_of_the_plain_computation(use_reentrant):
    model = network()

    def run(x):
        y = checkpoint(model, x, use_reentrant=use_reentrant)
        rushlight.rand(5)  # so that the random numbers have moved on when it is computed again
        return y

    def plain(x):
        y = model(x)
        rushlight.rand(5)
        return y

    assert equal(gradients(model, run), gradients(model, plain))


@BOTH
def test_the_random_numbers_need_not_be_preserved(use_reentrant):
    x = rushlight.ones(1000, requires_grad=True)
    y = checkpoint(
        lambda x: nn.functional.dropout(x, 0.5).exp(), x, use_reentrant=use_reentrant,
        preserve_rng_state=False,
    )  # fmt: skip
    y.sum().backward()
    assert ((x.grad != 0) != (y != 1)).any(), "other elements were dropped the second time"


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(use_reentrant, segments):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(5)])

    def run(x):
        return checkpoint_sequential(model, segments, x, use_reentrant=use_reentrant)

    assert equal(gradients(model, run), gradients(model, model))


def test_nothing_is_saved_and_little_is_computed_again():
    calls, saved = [], []

    def function(x):
        calls.append(1)
        y = x.exp().exp()
        calls.append(2)
        return y + 1

    x = rushlight.rand(3, requires_grad=True)
    before = rushlight._C._live_tensors()
    y = checkpoint(function, x, use_reentrant=False, preserve_rng_state=False)
    saved.append(rushlight._C._live_tensors() - before)
    assert saved == [1], "the result alone"
    y.sum().backward()
    assert calls == [1, 2, 1]
    calls.clear()
    with set_checkpoint_early_stop(False):
        checkpoint(function, x, use_reentrant=False).sum().backward()
    assert calls == [1, 2, 1, 2]


def test_second_derivatives_retained_graphs_and_nesting():
    x = rushlight.rand(3, requires_grad=True)

    def inner(x):
        return x.sin() * x

    def outer(x):
        return checkpoint(inner, x.cos(), use_reentrant=False).exp()

    def derivatives(y):
        (first,) = rushlight.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = rushlight.autograd.grad(first.sum(), x)
        return first.detach(), second

    plain = derivatives(inner(x.cos()).exp())
    for y in (outer(x), checkpoint(outer, x, use_reentrant=False)):
        assert all(rushlight.equal(a, b) for a, b in zip(derivatives(y), plain))
    y = checkpoint(outer, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    assert rushlight.equal(x.grad, 2 * once)


def test_keyword_arguments_containers_and_several_results():
    x = rushlight.rand(2, requires_grad=True)

    def function(pair, *, scale):
        return pair["a"] * scale, pair["a"].exp()

    a, b = checkpoint(function, {"a": x}, use_reentrant=False, scale=3)
    (a + b).sum().backward()
    assert rushlight.equal(x.grad, 3 + x.detach().exp())
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(function, {"a": x}, use_reentrant=True, scale=3)


def test_it_does_nothing_without_gradients():
    with rushlight.no_grad():
        y = checkpoint(rushlight.exp, rushlight.ones(2, requires_grad=True), use_reentrant=False)
    assert not y.requires_grad


def test_autocast_is_as_in_the_first_computation():
    dtypes = []
    weight = rushlight.rand(2, 2, requires_grad=True)

    def function(x):
        y = x @ weight
        dtypes.append(y.dtype)
        return y.float().exp()

    with rushlight.amp.autocast("cpu"):
        y = checkpoint(function, rushlight.rand(2, 2), use_reentrant=False)
    y.sum().backward()
    assert dtypes == [rushlight.bfloat16] * 2


def test_a_different_second_computation_is_an_error():
    calls = []

    def another_count(x):
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x.exp()

    def another_shape(x):
        calls.append(1)
        return (x if len(calls) == 1 else x[:2]).exp().sum()

    x = rushlight.rand(3, requires_grad=True)
    with pytest.raises(CheckpointError, match="different number of tensors"):
        checkpoint(another_count, x, use_reentrant=False).sum().backward()
    calls.clear()
    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(another_shape, x, use_reentrant=False).backward()


def test_the_way_must_be_chosen():
    x = rushlight.rand(2, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(rushlight.exp, x).sum().backward()
    assert rushlight.equal(x.grad, x.detach().exp())


def test_the_reentrant_way_warns_where_nothing_gets_a_gradient():
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(rushlight.exp, rushlight.rand(2), use_reentrant=True)


def test_errors_inside_are_those_of_the_user():
    calls = []

    def function(x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("mine")
        return x.exp()

    y = checkpoint(function, rushlight.rand(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()


def test_the_reentrant_way_refuses_named_inputs():
    """The pass inside would fill .grad of the parameters, which nobody asked for."""
    model, x = network(), rushlight.ones(3, 4, requires_grad=True)
    y = checkpoint(model, x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        rushlight.autograd.grad(y, x)
    assert all(p.grad is None for p in model.parameters())


ATEN = rushlight.ops.aten
SELECTIONS = {
    "mm": (lambda x, w: rushlight.mm(x, w).sin().mm(w).exp(), [ATEN.mm.default]),
    "matmul": (lambda x, w: ((x @ w).relu() @ w).tanh(), [ATEN.mm.default]),
    "linear": (lambda x, w: nn.functional.linear(x, w, x[0]).sigmoid(), [ATEN.addmm.default]),
    "of its result": (lambda x, w: x.exp().sin() * w.sigmoid(), [ATEN.exp.default]),
    "of two": (lambda x, w: (x * w).exp() + x, [ATEN.mul.Tensor]),
    "random": (
        lambda x, w: nn.functional.dropout(x @ w, 0.5) * rushlight.rand(4, 4),
        [ATEN.dropout.default],
    ),
    "in place": (lambda x, w: (x @ w).sin_().exp(), [ATEN.sin_.default]),
    "view": (lambda x, w: (x.t() @ w).view(-1).sin(), [ATEN.t.default, ATEN.view.default]),
    "inside Python": (
        lambda x, w: nn.functional.gumbel_softmax(x @ w).exp(), [ATEN.softmax.default],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTIONS)
def test_kept_results_change_no_gradient(name):
    function, ops = SELECTIONS[name]
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(op)
        assert not ctx.is_recompute
        return CheckpointPolicy.MUST_SAVE if op in ops else CheckpointPolicy.PREFER_RECOMPUTE

    def run(call):
        rushlight.manual_seed(1)
        x = rushlight.randn(4, 4, requires_grad=True)
        w = rushlight.randn(4, 4, requires_grad=True)
        call(x, w).square().sum().backward()
        return x.grad, w.grad, rushlight.rand(1)

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    found = run(lambda x, w: checkpoint(function, x, w, use_reentrant=False, context_fn=contexts))
    assert set(ops) <= set(asked)
    assert all(rushlight.equal(a, b) for a, b in zip(found, run(function), strict=True))


def test_what_is_kept_is_not_computed_again():
    class Counted(rushlight.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = rushlight.ones(3, 3, requires_grad=True)
    contexts = functools.partial(create_selective_checkpoint_contexts, [ATEN.mm.default])
    y = checkpoint(lambda x: x.mm(x).exp().sin(), x, use_reentrant=False, context_fn=contexts)
    y, calls = y.sum(), []
    with Counted():
        rushlight.autograd.backward([y])
    assert "exp" in calls and "mm" not in calls


def test_a_kept_result_that_has_changed_is_refused():
    def run(allow):
        contexts = functools.partial(
            create_selective_checkpoint_contexts, [ATEN.exp.default],
            allow_cache_entry_mutation=allow,
        )  # fmt: skip
        x, results = rushlight.ones(3, requires_grad=True), []

        def function(x):
            results.append(x.exp())
            return results[-1].detach().sin() * x

        y = checkpoint(function, x, use_reentrant=False, context_fn=contexts).sum()
        results.pop().detach().add_(1)
        y.backward()
        return x.grad

    with pytest.raises(RuntimeError, match="has been mutated"):
        run(False)
    assert run(True).isfinite().all()


def test_contexts_want_operations_or_a_policy():
    for bad in (3, None):
        with pytest.raises(TypeError, match="function or a list"):
            create_selective_checkpoint_contexts(bad)
    with pytest.raises(ValueError, match="OpOverload"):
        create_selective_checkpoint_contexts([ATEN.mm])


def test_errors_list_the_operations_when_asked():
    runs = []

    def part(x):
        runs.append(1)
        return (x[: 3 if len(runs) == 1 else 2].sin() * 2).sum()

    def message(**arguments):
        runs.clear()
        x = rushlight.ones(3, requires_grad=True)
        out = checkpoint(part, x, use_reentrant=False, **arguments)
        with pytest.raises(CheckpointError, match="different metadata") as caught:
            out.backward()
        return str(caught.value)

    plain, long = message(), message(debug=True)
    line = f"line {part.__code__.co_firstlineno + 2} of {__file__}"
    assert "Operations" not in plain and long.startswith(plain)
    forward, again = long.split("Operations of the recomputation:")
    assert f"aten.sin.default(float32[3]) on {line}" in forward and "aten.sum" in forward
    assert f"aten.sin.default(float32[2]) on {line}" in again and "aten.sum" not in again
    with set_checkpoint_debug_enabled(True):
        assert message() == long
    with set_checkpoint_debug_enabled(False):
        assert message(debug=True) == plain
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        checkpoint(
            part,
            rushlight.ones(3),
            use_reentrant=False,
            debug=True,
            context_fn=functools.partial(create_selective_checkpoint_contexts, []),
        )


@pytest.mark.parametrize("early_stop", [True, False])
def test_a_gradient_is_taken_inside(early_stop):
    def slope(x):
        y = (x.sin() * x).sum()
        (gradient,) = rushlight.autograd.grad(y, x, create_graph=True)
        return gradient.exp()

    def in_parts(x):  # the gradient asks for what was saved before the function has ended
        y = checkpoint(lambda x: x.sin() * x, x, use_reentrant=False).sum()
        (gradient,) = rushlight.autograd.grad(y, x, create_graph=True)
        return gradient.exp()

    x = rushlight.tensor([0.3, 0.7], dtype=rushlight.float64, requires_grad=True)
    slope(x).sum().backward()
    expected, x.grad = x.grad, None
    with set_checkpoint_early_stop(early_stop):
        for function in (slope, in_parts):
            checkpoint(function, x, use_reentrant=False).sum().backward()
            assert rushlight.allclose(x.grad, expected)
            x.grad = None


def test_what_needs_no_gradient_is_saved_again_as_itself():
    seen, weight = [], rushlight.ones(2)

    class Weighted(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(weight)
            return x * weight

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.saved_tensors[0])
            return grad * seen[0], None

    x = rushlight.ones(2, requires_grad=True)
    checkpoint(Weighted.apply, x, weight, use_reentrant=False).sum().backward()
    assert seen.pop() is weight


def test_a_kept_result_may_be_changed_in_place_where_that_is_allowed():
    save = [rushlight.ops.aten.sin.default]
    x = rushlight.tensor([0.3, 0.7], requires_grad=True)

    def function(x):
        return x.sin().mul_(2).cos()

    def contexts(**options):
        return functools.partial(create_selective_checkpoint_contexts, save, **options)

    y = checkpoint(function, x, use_reentrant=False, context_fn=contexts())
    with pytest.raises(RuntimeError, match="has been mutated"):
        y.sum().backward()
    allowed = contexts(allow_cache_entry_mutation=True)
    checkpoint(function, x, use_reentrant=False, context_fn=allowed).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("named", [False, True])
def test_an_argument_that_the_function_changes_is_refused(named):
    """It would be computed again from what the first call left: silently other gradients."""
    layer = nn.Linear(3, 3)
    hidden = layer(rushlight.ones(2, 3))
    silu = functools.partial(nn.functional.silu, inplace=True)
    given = {"input": hidden} if named else {}
    args = () if named else (hidden,)
    out = checkpoint(silu, *args, use_reentrant=False, **given)
    with pytest.raises(
        RuntimeError, match="modified by an inplace operation: an argument of check"
    ):
        out.tanh().sum().backward()
    out = checkpoint(lambda x: silu(x.clone()), layer(rushlight.ones(2, 3)), use_reentrant=False)
    out.sum().backward()
    assert layer.weight.grad.abs().sum() > 0
