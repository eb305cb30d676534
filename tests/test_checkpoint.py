"""utils.checkpoint: the gradients of the plain computation, for less memory."""

import pytest

import rushlight
from rushlight import nn
from rushlight.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
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
    with pytest.warns(UserWarning, match="pass use_reentrant explicitly"):
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
