"""Quantized layers and functions beside those of the numbers that they stand for."""

import importlib

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import quantized as nnq
from rushlight.ao.nn.quantized import dynamic, functional as qF
from rushlight.nn import functional as F

pytestmark = pytest.mark.kernels


def quantized(*shape, dtype=rl.quint8):
    return rl.quantize_per_tensor(rl.randn(shape), 0.05, 30 if dtype is rl.quint8 else 0, dtype)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions(dims):
    x, w = quantized(2, 4, *[6] * dims), quantized(6, 4, *[3] * dims, dtype=rl.qint8)
    wanted = getattr(F, f"conv{dims}d")(x.dequantize(), w.dequantize(), rl.ones(6), 2, 1)
    found = getattr(qF, f"conv{dims}d")(x, w, rl.ones(6), 2, 1, scale=0.1, zero_point=60)
    assert found.equal(rl.quantize_per_tensor(wanted, 0.1, 60, rl.quint8))
    layer = getattr(dynamic, f"Conv{dims}d")(4, 6, 3, stride=2, padding=1)
    layer.set_weight_bias(w, rl.ones(6))
    rounding = float(x.dequantize().max() - x.dequantize().min()) / 127  # by half a step each
    bound = rounding / 2 * float(w.dequantize().abs().flatten(1).sum(1).max())
    assert (layer(x.dequantize()) - wanted).abs().max() <= bound
    assert layer(rl.zeros(0, 4, *[6] * dims)).shape[:2] == (0, 6)
    assert repr(layer).startswith(f"DynamicQuantizedConv{dims}d(4, 6, kernel_size=")


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions(dims):
    x, w = quantized(2, 4, *[5] * dims), quantized(4, 6, *[3] * dims, dtype=rl.qint8)
    wanted = getattr(F, f"conv_transpose{dims}d")(
        x.dequantize(), w.dequantize(), rl.ones(6), 2, 1, 1
    )
    layer = getattr(nnq, f"ConvTranspose{dims}d")(4, 6, 3, stride=2, padding=1, output_padding=1)
    layer.set_weight_bias(w, rl.ones(6))
    layer.scale, layer.zero_point = 0.125, 60
    assert layer(x).equal(rl.quantize_per_tensor(wanted, 0.125, 60, rl.quint8))
    assert f"output_padding={(1,) * dims}" in repr(layer)
    other = getattr(nnq, f"ConvTranspose{dims}d")(4, 6, 3, stride=2, padding=1, output_padding=1)
    other.load_state_dict(layer.state_dict())
    assert other(x).equal(layer(x))


def test_embedding_bags():
    weight = rl.quantize_per_channel(
        rl.rand(5, 3), rl.rand(5) * 0.01 + 0.01, rl.arange(5.0), 0, rl.quint8
    )
    bag = nnq.EmbeddingBag(5, 3, include_last_offset=True)
    bag.set_weight(weight)
    rows = weight.dequantize()
    found = bag(rl.tensor([4, 0, 1, 1]), rl.tensor([0, 2, 2, 4]))
    rl.testing.assert_close(found, rl.stack([rows[4] + rows[0], rl.zeros(3), 2 * rows[1]]))
    for bad in ({"mode": "mean"}, {"max_norm": 1.0}, {"sparse": True}):
        with pytest.raises(NotImplementedError, match="quantized EmbeddingBag"):
            nnq.EmbeddingBag(5, 3, **bad)


def test_functions():
    x, w = quantized(2, 4), quantized(3, 4, dtype=rl.qint8)
    wanted = F.linear(x.dequantize(), w.dequantize(), rl.ones(3))
    assert qF.linear(x, w, rl.ones(3)).equal(rl.quantize_per_tensor(wanted, 0.05, 30, rl.quint8))
    with pytest.raises(RuntimeError, match="linear: weight must be a quantized tensor"):
        qF.linear(x, w.dequantize())
    image = quantized(1, 2, 4, 4)
    pooled = rl.quantized_max_pool2d(image, [2, 2])
    assert pooled.dequantize().equal(F.max_pool2d(image.dequantize(), 2))
    assert pooled.q_scale() == image.q_scale()
    mean, var = rl.rand(2), rl.rand(2) + 0.5
    normed = rl.quantized_batch_norm(image, rl.ones(2), rl.zeros(2), mean, var, 1e-5, 0.2, 2)
    wanted = F.batch_norm(image.dequantize(), mean, var, rl.ones(2), rl.zeros(2), eps=1e-5)
    assert normed.equal(rl.quantize_per_tensor(wanted, 0.2, 2, rl.quint8))
    for call in (
        lambda: rl.quantized_max_pool1d(rl.ones(1, 4), [2]),
        lambda: rl.quantized_batch_norm(rl.ones(1, 2), None, None, mean, var, 1e-5, 0.2, 2),
    ):
        with pytest.raises(RuntimeError, match="expected a quantized tensor"):
            call()


def test_older_places():
    assert nn.quantized.Conv2d is nnq.Conv2d and nn.quantized.dynamic.Conv1d is dynamic.Conv1d
    assert nn.quantized.functional.conv1d is qF.conv1d
    assert nn.qat.Linear is importlib.import_module("rushlight.ao.nn.qat").Linear
    for name in ("qat", "quantized"):
        older = importlib.import_module(f"rushlight.nn.intrinsic.{name}")
        newer = importlib.import_module(f"rushlight.ao.nn.intrinsic.{name}")
        assert older.ConvReLU2d is newer.ConvReLU2d
    assert nn.intrinsic.LinearReLU.__name__ == "LinearReLU"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        nn.quantized.Nothing  # noqa: B018
    assert rl.masked._ops.sum is rl.masked.sum


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True},
                                     {"batch_first": True, "bias": False}])  # fmt: skip
def test_quantizable_lstms_are_lstms(options):
    plain = nn.LSTM(3, 4, **options)
    made = nn.quantizable.LSTM.from_float(plain)
    x = rl.randn(2, 5, 3)
    count = plain.num_layers * (1 + plain.bidirectional)
    state = [rl.randn(count, 2 if plain.batch_first else 5, 4) for _ in range(2)]
    for given in (None, tuple(state)):
        wanted, found = plain(x, given), made(x, given)
        rl.testing.assert_close(found[0], wanted[0])
        rl.testing.assert_close(found[1], wanted[1])
    assert repr(made).startswith("QuantizableLSTM(")
    cell = nn.LSTMCell(3, 4)
    again = nn.quantizable.LSTMCell.from_float(cell)
    rl.testing.assert_close(again(x[0]), cell(x[0]))
    with pytest.raises(NotImplementedError, match="projections"):
        nn.quantizable.LSTM.from_float(nn.LSTM(3, 4, proj_size=2))
    split = nn.quantizable.LSTM.from_float(plain, split_gates=True)
    rl.testing.assert_close(split(x)[0], plain(x)[0])


def test_options_that_layers_keep():
    q = nnq
    conv, back = q.Conv2d(2, 3, 3), q.ConvTranspose2d(2, 3, 3, 2, output_padding=1)
    assert (conv.transposed, conv.output_padding) == (False, (0, 0))
    assert (back.transposed, back.output_padding) == (True, (1, 1))
    assert q.EmbeddingBag(4, 8).pruned_weights is False
    cell = dynamic.GRUCell(2, 3)
    assert cell.bias_ih.tolist() == cell.bias_hh.tolist() == [0.0] * 9
    assert dynamic.RNNCell(2, 3, bias=False).bias_hh is None


def test_the_state_that_a_quantizable_cell_begins_with():
    cell = rl.ao.nn.quantizable.LSTMCell(2, 3)
    cell.initial_hidden_state_qparams, cell.initial_cell_state_qparams = (0.5, 7), (0.25, -3)
    cell.cell_state_dtype = rl.qint32
    h, c = cell.initialize_hidden(2, is_quantized=True)
    assert (h.q_scale(), h.q_zero_point(), h.dtype) == (0.5, 7, rl.quint8)
    assert (c.q_scale(), c.q_zero_point(), c.dtype) == (0.25, -3, rl.qint32)
    assert h.dequantize().tolist() == c.dequantize().tolist() == [[0.0] * 3] * 2
    plain, _ = cell.initialize_hidden(2)
    assert not plain.is_quantized
