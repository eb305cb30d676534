"""RNN, LSTM and GRU: the operation over all steps against their cells, one step at a time."""

import pytest

import rushlight
from rushlight import nn
from rushlight.nn.utils import rnn
from rushlight.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence
from rushlight.testing import assert_close

pytestmark = pytest.mark.kernels

KINDS = {
    "tanh": (nn.RNN, nn.RNNCell, {}),
    "relu": (nn.RNN, nn.RNNCell, {"nonlinearity": "relu"}),
    "lstm": (nn.LSTM, nn.LSTMCell, {}),
    "gru": (nn.GRU, nn.GRUCell, {}),
}
F64 = rushlight.float64


def by_cells(kind, layer, x, states, reverse=False):
    """The outputs of the first layer of `layer` in one direction, and the last states."""
    _, make, options = KINDS[kind]
    suffix = "_l0_reverse" if reverse else "_l0"
    cell = make(layer.input_size, layer.hidden_size, layer.bias, dtype=x.dtype, **options)
    for name, _ in list(cell.named_parameters()):
        setattr(cell, name, getattr(layer, name + suffix))
    outputs = []
    for x_t in reversed(x.unbind(0)) if reverse else x.unbind(0):
        states = cell(x_t, states)
        outputs.append(states[0] if kind == "lstm" else states)
    return rushlight.stack(outputs[::-1] if reverse else outputs), states


def as_tuple(states):
    return states if isinstance(states, tuple) else (states,)


def gradients(results, inputs, seed=1):
    """Those of a fixed weighted sum of all results."""
    generator = rushlight.Generator().manual_seed(seed)
    total = sum(
        (r * rushlight.randn(r.shape, dtype=r.dtype, generator=generator)).sum() for r in results
    )
    return rushlight.autograd.grad(total, inputs)


# Blocks of 16 and 32 states, 64 samples and 64 terms: below, at, and past their borders.
SIZES = [(3, 2, 5), (4, 17, 16), (2, 3, 33), (2, 70, 20), (1, 1, 40), (3, 6, 130)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps, batch, size", SIZES)
def test_a_layer_is_its_cell_step_by_step(kind, steps, batch, size):
    make, _, options = KINDS[kind]
    layer = make(3, size, bidirectional=True, dtype=F64, **options)
    x = rushlight.randn(steps, batch, 3, dtype=F64, requires_grad=True)
    first = tuple(
        rushlight.randn(2, batch, size, dtype=F64, requires_grad=True)
        for _ in range(2 if kind == "lstm" else 1)
    )
    inputs = (x, *first, *layer.parameters())
    output, last = layer(x, first if kind == "lstm" else first[0])
    results = (output, *as_tuple(last))
    parts = []
    for direction in range(2):
        states = tuple(state[direction] for state in first)
        parts.append(
            by_cells(kind, layer, x, states if kind == "lstm" else states[0], direction == 1)
        )
    expected = (
        rushlight.cat([outputs for outputs, _ in parts], 2),
        *(rushlight.stack(both) for both in zip(*(as_tuple(states) for _, states in parts))),
    )
    for result, other in zip(results, expected):
        assert_close(result, other, rtol=1e-12, atol=1e-12)
    for result, other in zip(gradients(results, inputs), gradients(expected, inputs)):
        assert_close(result, other, rtol=1e-10, atol=1e-10)
    with rushlight.no_grad():
        narrow = layer.float()(x.float(), *([tuple(s.float() for s in first)] if kind == "lstm"
                                            else [first[0].float()]))[0]  # fmt: skip
    assert_close(narrow.double(), output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[4, 4, 2, 1], [3, 5, 1], [2], [7, 1] + [3] * 40])
def test_packed_sequences_run_as_each_by_itself(kind, lengths):
    make, _, options = KINDS[kind]
    layer = make(3, 21, num_layers=2, bidirectional=True, dtype=F64, **options)
    sequences = [rushlight.randn(n, 3, dtype=F64, requires_grad=True) for n in lengths]
    first = tuple(
        rushlight.randn(4, len(lengths), 21, dtype=F64, requires_grad=True)
        for _ in range(2 if kind == "lstm" else 1)
    )
    inputs = (*sequences, *first, *layer.parameters())
    packed, last = layer(
        pack_sequence(sequences, enforce_sorted=False), first if kind == "lstm" else first[0]
    )
    padded, found = pad_packed_sequence(packed)
    assert found.tolist() == lengths
    results, expected = [], []
    for i, sequence in enumerate(sequences):
        start = tuple(state[:, i] for state in first)
        output, states = layer(sequence, start if kind == "lstm" else start[0])
        expected += [output, *as_tuple(states)]
        results += [padded[: lengths[i], i], *(state[:, i] for state in as_tuple(last))]
        assert not padded[lengths[i] :, i].any()
    for result, other in zip(results, expected):
        assert_close(result, other, rtol=1e-12, atol=1e-12)
    for result, other in zip(gradients(results, inputs), gradients(expected, inputs)):
        assert_close(result, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_second_gradients(kind, packed):
    make, _, options = KINDS[kind]
    layer = make(2, 3, bidirectional=True, dtype=F64, **options)
    x = rushlight.randn(3, 2, 2, dtype=F64, requires_grad=True)

    def run(x, *_):
        if not packed:
            return layer(x)[0]
        return layer(pack_padded_sequence(x, [3, 2]))[0].data

    assert rushlight.autograd.gradgradcheck(run, (x, *layer.parameters()))


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same_bits(kind):
    make, _, options = KINDS[kind]
    layer = make(8, 100, **options)
    x = rushlight.randn(5, 33, 8, requires_grad=True)
    before = rushlight.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 5):
            rushlight.set_num_threads(threads)
            output = layer(x)[0]
            found.append((output, *gradients([output], (x, *layer.parameters()))))
    finally:
        rushlight.set_num_threads(before)
    for other in found[1:]:
        assert all(rushlight.equal(a, b) for a, b in zip(found[0], other))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_run_over(kind):
    make, _, options = KINDS[kind]
    layer = make(3, 4, **options)
    x = rushlight.randn(2, 0, 3, requires_grad=True)
    output, last = layer(x)
    assert output.shape == (2, 0, 4) and as_tuple(last)[0].shape == (1, 0, 4)
    grads = gradients([output], (x, *layer.parameters()))
    assert grads[0].shape == x.shape and not any(g.any() for g in grads)
    with pytest.raises(RuntimeError, match="sequence length"):
        layer(x.transpose(0, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_infinity_stay_in_their_sample(kind):
    make, _, options = KINDS[kind]
    layer = make(3, 20, **options)
    x = rushlight.randn(4, 3, 3)
    clean = layer(x)[0]
    x[1, 0, 0], x[2, 2, 1] = float("nan"), float("inf")
    output = layer(x)[0]
    assert output[1:, 0].isnan().all() and not output[0].isnan().any()
    assert rushlight.equal(output[:, 1], clean[:, 1])


@pytest.mark.parametrize("sizes", [[2, 3], [3, 2, 2], [3, 1], [3, 0, 2], [3, -1, 3], [4, 1]])
def test_batch_sizes_that_no_packed_sequence_has(sizes):
    x, h, w = rushlight.randn(5, 4), rushlight.randn(3, 4), rushlight.randn(4, 4)
    with pytest.raises(RuntimeError, match="batch_sizes must"):
        nn.functional._recurrent_layer(x, h, None, w, w, None, None, "RNN_TANH", sizes, False)


CHANGES = {
    "relu": lambda t: t.relu_(),
    "part": lambda t: t[..., 1:].mul_(-3),
    "data": lambda t: t.detach().zero_(),
}


def check_changes_in_place(run, inputs, change):
    """That changing what `run` returns gives the gradients that changing copies of it gives."""
    states, copies = run(), [t.clone() for t in run()]
    for t in (*states, *copies):
        change(t)
    for got, expected in zip(gradients(states, inputs), gradients(copies, inputs)):
        assert_close(got, expected)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_states_of_cells_may_be_changed_in_place(kind, change):
    cell = KINDS[kind][1](3, 5, dtype=F64)
    x = rushlight.randn(4, 3, dtype=F64, requires_grad=True)
    inputs = [x, *cell.parameters()]
    check_changes_in_place(lambda: as_tuple(cell(x)), inputs, CHANGES[change])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind, packed", [("tanh", False), ("relu", True), ("gru", False),
                                          ("gru", True), ("lstm", True)])  # fmt: skip
def test_outputs_of_layers_may_be_changed_in_place(kind, packed, change):
    make, _, options = KINDS[kind]
    layer = make(3, 5, dtype=F64, **options)
    x = rushlight.randn(4, 2, 3, dtype=F64, requires_grad=True)

    def run():
        given = pack_padded_sequence(x, [4, 2]) if packed else x
        output, states = layer(given)
        return [output.data if packed else output, *as_tuple(states)]

    check_changes_in_place(run, [x, *layer.parameters()], CHANGES[change])


def test_the_output_of_a_whole_lstm_is_kept_by_its_node():
    output, _ = nn.LSTM(3, 5)(rushlight.randn(4, 2, 3))
    output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_layers_run_under_autocast(kind, packed):
    make, _, options = KINDS[kind]
    layer = make(3, 20, num_layers=2, bidirectional=True, **options)
    x = rushlight.randn(4, 2, 3, requires_grad=True)
    argument = pack_padded_sequence(x, [4, 2]) if packed else x

    def run():
        output = layer(argument)[0]
        return output.data if packed else output

    plain = run()
    with rushlight.autocast("cpu", dtype=rushlight.bfloat16):
        short = run()
    assert_close(short.float(), plain, rtol=0.05, atol=0.05)
    inputs = (x, *layer.parameters())
    for a, b in zip(gradients([short.float()], inputs), gradients([plain], inputs)):
        assert a.dtype is rushlight.float32
        assert_close(a, b, rtol=0.1, atol=0.1 * float(b.abs().max()))


def test_unpacked_sequences_lie_in_order():
    """Copies, as in torch: what is done to one of them leaves the padded batch alone."""
    parts = [rushlight.arange(6.0).view(3, 2), rushlight.ones(1, 2), rushlight.zeros(2, 2)]
    padded = rnn.pad_sequence(parts)
    lengths = rushlight.tensor([3, 1, 2])
    unpadded = rnn.unpad_sequence(padded, lengths)
    for found in (unpadded, rnn.unpack_sequence(rnn.pack_sequence(parts, enforce_sorted=False))):
        for part, right in zip(found, parts, strict=True):
            assert rushlight.equal(part, right)
            assert part.is_contiguous() and part.storage_offset() == 0
    unpadded[0].zero_()
    assert padded[1, 0].tolist() == [2, 3]


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_inputs_of_another_dtype_than_the_weights(kind):
    layer = getattr(rushlight.nn, kind)(3, 4)
    with pytest.raises(ValueError, match="RNN input dtype .* does not match weight dtype"):
        layer(rushlight.ones(2, 2, 3, dtype=rushlight.float64))


@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
def test_gradients_of_both_biases_may_be_scaled_in_place(layer):
    made = layer(3, 4)
    made(rushlight.ones(5, 2, 3))[0].sum().backward()
    kept = made.bias_hh_l0.grad.clone()
    made.bias_ih_l0.grad.mul_(0.5)
    assert made.bias_hh_l0.grad.equal(kept)
