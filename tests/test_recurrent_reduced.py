"""RNN, LSTM and GRU of 16-bit floats beside the same layers in float64."""

import pytest
from test_recurrent import KINDS, SIZES, as_tuple

import rushlight
from rushlight import nn
from rushlight.nn.utils.rnn import pack_sequence, pad_packed_sequence
from rushlight.testing import assert_close

pytestmark = pytest.mark.kernels

F64 = rushlight.float64
# Of the root of the mean square; a result's own rounding makes 0.0017 and 0.0002 of it.
MOST = {rushlight.bfloat16: 0.006, rushlight.float16: 0.0006}


def error(a, b):
    b = b.double()
    return float(((a.double() - b).square().mean() / b.square().mean().clamp_min(1e-12)).sqrt())


def narrow(shape, dtype, seed):
    """Random numbers of float64 that the dtype holds."""
    generator = rushlight.Generator().manual_seed(seed)
    return rushlight.randn(shape, generator=generator).to(dtype).double()


def both_layers(kind, dtype, *sizes, **options):
    """The same layer in float64 and in `dtype`."""
    make, _, more = KINDS[kind]
    wide = make(*sizes, **more, **options).to(dtype).double()
    if kind == "relu":  # whose gradient is another where a sum near 0 is rounded to the other side
        for p in wide.parameters():
            p.data.abs_().mul_(0.25)
    short = make(*sizes, **more, **options).to(dtype)
    short.load_state_dict(wide.state_dict())
    return wide, short


def states_for(kind, shape, dtype):
    return tuple(narrow(shape, dtype, seed).abs() for seed in ((5, 6) if kind == "lstm" else (5,)))


def run(layer, dtype, kind, values, states, pack=lambda x: x, unpack=lambda x: x):
    """Outputs, last states, and the gradients of everything."""
    x = values.to(dtype).requires_grad_()
    first = tuple(s.to(dtype).requires_grad_() for s in states)
    output, last = layer(pack(x), first if kind == "lstm" else first[0])
    results = (unpack(output), *as_tuple(last))
    assert all(r.dtype is dtype for r in results)
    # Weights that the dtype holds: sums of their products then differ by what is computed alone.
    total = sum((r * narrow(r.shape, rushlight.float16, 7).to(dtype)).sum() for r in results)
    made = rushlight.autograd.grad(total, (x, *first, *layer.parameters()))
    assert all(g.dtype is dtype for g in made)
    return results, made


@pytest.mark.parametrize("dtype", MOST, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps, batch, size", [*SIZES, (5, 33, 64), (3, 16, 100)])
def test_a_layer_is_that_of_float64(kind, steps, batch, size, dtype):
    bias = size != 33
    wide, short = both_layers(kind, dtype, 7, size, bidirectional=True, bias=bias)
    values = narrow((steps, batch, 7), dtype, 1).abs()
    states = states_for(kind, (2, batch, size), dtype)
    expected = run(wide, F64, kind, values, states)
    found = run(short, dtype, kind, values, states)
    for part, other in zip(found, expected):
        for a, b in zip(part, other):
            assert error(a, b) < MOST[dtype]
    with rushlight.no_grad():
        first = tuple(s.to(dtype) for s in states)
        output = short(values.to(dtype), first if kind == "lstm" else first[0])[0]
    assert rushlight.equal(output, found[0][0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[4, 4, 2, 1], [3, 5, 1], [2], [7, 1] + [3] * 40])
def test_packed_sequences_run_as_in_float64(kind, lengths):
    dtype = rushlight.bfloat16
    wide, short = both_layers(kind, dtype, 3, 37, bidirectional=True)
    values = narrow((max(lengths), len(lengths), 3), dtype, 1).abs()
    states = states_for(kind, (2, len(lengths), 37), dtype)

    def pack(x):
        return pack_sequence([x[:n, i] for i, n in enumerate(lengths)], enforce_sorted=False)

    def unpack(packed):
        return pad_packed_sequence(packed)[0]

    expected = run(wide, F64, kind, values, states, pack, unpack)
    found = run(short, dtype, kind, values, states, pack, unpack)
    for part, other in zip(found, expected):
        for a, b in zip(part, other):
            assert error(a, b) < MOST[dtype]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_second_gradients(kind, packed):
    dtype = rushlight.bfloat16
    wide, short = both_layers(kind, dtype, 2, 5)
    values = narrow((3, 2, 2), dtype, 1)

    def second(layer, dtype):
        x = values.to(dtype).requires_grad_()
        argument = pack_sequence([x[:, 0], x[:2, 1]]) if packed else x
        output = layer(argument)[0]
        inputs = (x, *layer.parameters())
        total = (output.data if packed else output).square().sum()
        first = rushlight.autograd.grad(total, inputs, create_graph=True)
        return rushlight.autograd.grad(sum(g.square().sum() for g in first), inputs)

    for a, b in zip(second(short, dtype), second(wide, F64)):
        assert error(a, b) < 0.03


def test_relu_of_negative_sums_is_zero_and_so_is_its_gradient():
    layer = nn.RNN(3, 40, nonlinearity="relu").bfloat16()
    for p in layer.parameters():
        p.data.abs_().neg_()
    x = rushlight.rand(3, 2, 3).bfloat16().requires_grad_()
    output = layer(x)[0]
    grads = rushlight.autograd.grad(output.sum(), (x, *layer.parameters()))
    assert not output.any() and not any(g.any() for g in grads)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("bias", [False, True])
def test_cells(kind, bias):
    dtype = rushlight.bfloat16
    _, make, options = KINDS[kind]
    wide = make(5, 40, bias, **options).to(dtype).double()
    short = make(5, 40, bias, **options).to(dtype)
    short.load_state_dict(wide.state_dict())
    values, states = narrow((6, 5), dtype, 1), states_for(kind, (6, 40), dtype)

    def results(cell, dtype):
        x = values.to(dtype).requires_grad_()
        first = tuple(s.to(dtype) for s in states)
        made = as_tuple(cell(x, first if kind == "lstm" else first[0]))
        assert all(m.dtype is dtype for m in made)
        total = sum((m * narrow(m.shape, rushlight.float16, 7).to(dtype)).sum() for m in made)
        return (*made, *rushlight.autograd.grad(total, (x, *cell.parameters())))

    for a, b in zip(results(short, dtype), results(wide, F64)):
        assert error(a, b) < 0.008


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same_bits(kind):
    _, layer = both_layers(kind, rushlight.bfloat16, 8, 100)
    values, states = narrow((5, 33, 8), F64, 1), states_for(kind, (1, 33, 100), F64)
    before = rushlight.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            rushlight.set_num_threads(threads)
            found.append(run(layer, rushlight.bfloat16, kind, values, states))
    finally:
        rushlight.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip((*found[0][0], *found[0][1]), (*other[0], *other[1])):
            assert rushlight.equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_run_over(kind):
    _, layer = both_layers(kind, rushlight.bfloat16, 3, 4)
    x = rushlight.randn(2, 0, 3).bfloat16().requires_grad_()
    output, last = layer(x)
    assert output.shape == (2, 0, 4) and as_tuple(last)[0].shape == (1, 0, 4)
    grads = rushlight.autograd.grad(output.sum(), (x, *layer.parameters()))
    assert grads[0].shape == x.shape and not any(g.any() for g in grads)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_infinity_stay_in_their_sample(kind):
    _, layer = both_layers(kind, rushlight.bfloat16, 8, 20)
    x = rushlight.randn(4, 8, 8).bfloat16()
    clean = layer(x)[0]
    x[1, 0, 0], x[2, 2, 1] = float("nan"), float("inf")
    output = layer(x)[0]
    assert output[1:, 0].isnan().all() and not output[0].isnan().any()
    assert rushlight.equal(output[:, 1], clean[:, 1])
    assert rushlight.equal(output[:, 3:], clean[:, 3:])


def test_tiny_states_keep_their_digits():
    layer = nn.LSTM(4, 20, bias=False).bfloat16()
    x = rushlight.randn(2, 3, 4).bfloat16() * 1e-12
    wide = nn.LSTM(4, 20, bias=False).double()
    wide.load_state_dict(layer.state_dict())
    assert error(layer(x)[0], wide(x.double())[0]) < 0.006


def test_saturated_gates():
    layer = nn.LSTM(1, 16, bias=False).bfloat16()
    x = rushlight.tensor([3e38, -3e38, 1e4, -1e4, 0]).bfloat16().reshape(1, 5, 1)
    wide = nn.LSTM(1, 16, bias=False).double()
    wide.load_state_dict(layer.state_dict())
    assert_close(layer(x)[0].double(), wide(x.double())[0], rtol=0.01, atol=1e-6)


def test_arguments_that_do_not_fit():
    def call(x=(2, 3, 4), h=(3, 5), c=(3, 5), w=(20, 4), v=(20, 5), b=(20,), mode="LSTM"):
        made = [None if s is None else rushlight.zeros(s).bfloat16() for s in (x, h, c, w, v, b)]
        return nn.functional._recurrent_layer(*made, made[-1], mode, [], False)

    call()
    for wrong, message in [
        ({"mode": "lstm"}, "mode must be"), ({"h": (2, 5)}, "does not fit"),
        ({"c": (3, 4)}, "has a cell"), ({"c": None}, "has a cell"), ({"mode": "GRU"}, "weights"),
        ({"w": (20, 3)}, "weights"), ({"v": (20, 4)}, "weights"), ({"b": (4,)}, "biases must"),
        ({"x": (2, 4)}, "expected input"),
    ]:  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            call(**wrong)
