"""Names that programs reach for, beside the public API."""

import pickle

import pytest

import rushlight
from rushlight import nn


def test_spmm_is_mm():
    a, b = rushlight.randn(3, 4), rushlight.randn(4, 2)
    for left in (a, a.to_sparse()):
        rushlight.testing.assert_close(rushlight.spmm(left, b), rushlight.mm(a, b))
    out = rushlight.empty(3, 2)
    assert rushlight.spmm(a, b, out=out) is out
    assert rushlight.equal(out, rushlight.mm(a, b))
    with pytest.raises(RuntimeError):
        rushlight.spmm(a, b[:, 0])
    assert pickle.loads(pickle.dumps(rushlight.spmm)) is rushlight.spmm


@pytest.mark.parametrize("enter", ["_record_function_enter", "_record_function_enter_new"])
def test_a_part_that_is_marked_by_operations_is_in_the_profile(enter):
    operations = rushlight.ops.profiler
    with rushlight.profiler.profile() as profile:
        outer = getattr(operations, enter)("outer", None)
        inner = getattr(operations, enter).default("inner")
        rushlight.ones(3).sum()
        operations._record_function_exit(inner)
        operations._record_function_exit._RecordFunction(outer)
    names = {event.key for event in profile.key_averages()}
    assert {"outer", "inner"} <= names
    handle = getattr(operations, enter)("nobody watches")
    operations._record_function_exit(handle)
    with pytest.raises(TypeError, match="_record_function_exit"):
        operations._record_function_exit(rushlight.ones(1))


def test_functions_of_parallel_modules():
    from rushlight.nn.parallel import _functions

    for name in ("Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"):
        assert issubclass(getattr(_functions, name), rushlight.autograd.Function)
    if not rushlight.cuda.is_available():  # tests/cuda_programs has what they compute
        with pytest.raises(AssertionError, match="CUDA is not available"):
            _functions.Scatter.apply([0], None, 0, rushlight.ones(3))
    assert callable(_functions._get_stream)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_flat_weights_can_be_set(kind):
    rnn, other = kind(3, 4, num_layers=2), kind(3, 4, num_layers=2)
    x = rushlight.randn(5, 2, 3)
    expected = other(x)[0]
    assert [w is getattr(rnn, n) for w, n in zip(rnn._flat_weights, rnn._flat_weights_names)] == [
        True
    ] * 8
    own = rnn(x)[0]

    weights = [weight * 1 for weight in other._flat_weights]
    rnn._flat_weights = weights
    assert rushlight.equal(rnn(x)[0], expected)
    assert all(a is b for a, b in zip(rnn._flat_weights, weights))
    rnn(x)[0].sum().backward()
    assert rnn.weight_ih_l0.grad is None and other.weight_ih_l0.grad is not None

    # A parameter that is set later takes its place again, and so do all after _apply.
    for name in rnn._flat_weights_names:
        setattr(rnn, name, nn.Parameter(getattr(rnn, name).detach()))
    assert rushlight.equal(rnn(x)[0], own)
    rnn._flat_weights[0] = other.weight_ih_l0
    assert rnn._flat_weights[0] is other.weight_ih_l0
    assert rnn._flat_weights[1] is rnn.weight_hh_l0
    assert not rushlight.equal(rnn(x)[0], own)
    assert rushlight.equal(rnn.to(rushlight.float32)(x)[0], own)
    with pytest.raises(ValueError, match="expected 8 weights"):
        rnn._flat_weights = weights[:2]
