"""Quantized layers and functions beside torch's: the same integers, to a step."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight.ao import quantization as own  # noqa: E402

theirs = torch.ao.quantization
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
LIBRARIES = (torch, rushlight)


def of(library, tensor):
    return tensor if library is torch else rushlight.from_numpy(tensor.numpy().copy())


def quantized(library, tensor, scale=0.05, zero=60):
    return library.quantize_per_tensor(of(library, tensor), scale, zero, library.quint8)


def copy_parameters(source, target):
    for name, value in source.state_dict().items():
        target.state_dict()[name].copy_(rushlight.from_numpy(value.numpy().copy()))


def close(expected, actual, steps=1):
    """Quantized tensors with one scale, whose integers differ by at most a step."""
    assert expected.q_scale() == pytest.approx(actual.q_scale(), rel=1e-6)
    assert expected.q_zero_point() == actual.q_zero_point()
    a, b = expected.int_repr().numpy().astype(int), actual.int_repr().numpy().astype(int)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= steps


def same(expected, actual, **tolerance):
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), **tolerance)


def image(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape)


FUNCTIONS = [
    ("avg_pool2d", (2,), {}), ("avg_pool2d", (3, 2, 1), {"count_include_pad": False}),
    ("adaptive_avg_pool2d", (3,), {}), ("max_pool2d", (2,), {}),
    ("max_pool2d", (3,), {"stride": 2, "padding": 1}), ("celu", (0.02, 30), {"alpha": 0.7}),
    ("elu", (0.02, 50), {}), ("hardswish", (0.03, 12), {}), ("leaky_relu", (0.2,), {}),
    ("leaky_relu", (0.2, False, 0.04, 33), {}), ("hardtanh", (-0.5, 0.7), {}),
    ("threshold", (0.31, -0.2), {}), ("hardsigmoid", (), {}), ("clamp", (-0.6, 0.4), {}),
    ("interpolate", (), {"scale_factor": 2}), ("upsample_nearest", (), {"size": (5, 9)}),
    ("interpolate", (), {"size": (9, 11), "mode": "bilinear", "align_corners": False}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options"), FUNCTIONS)
def test_functions(name, args, options):
    x = image(2, 4, 6, 7)
    results = [
        getattr(library.ao.nn.quantized.functional, name)(quantized(library, x), *args, **options)
        for library in LIBRARIES
    ]
    close(*results)


def test_pools_of_other_dims():
    x = image(2, 3, 4, 6, 8)
    for name, args in (("avg_pool3d", (2,)), ("adaptive_avg_pool3d", (2,))):
        close(*(
            getattr(library.ao.nn.quantized.functional, name)(quantized(library, x), *args)
            for library in LIBRARIES
        ))  # fmt: skip
    x = image(2, 3, 9)
    close(*(
        library.ao.nn.quantized.functional.max_pool1d(quantized(library, x), 3, 2)
        for library in LIBRARIES
    ))  # fmt: skip


def observed(make):
    """A layer between stubs with observers that have seen tensors, in each library."""
    torch.manual_seed(1)
    inner = make(torch.nn)
    models = []
    for library, quantization in ((torch, theirs), (rushlight, own)):
        layer = inner if library is torch else make(rushlight.nn)
        if library is rushlight:
            copy_parameters(inner, layer)
        model = library.nn.Sequential(
            quantization.QuantStub(), layer, quantization.DeQuantStub()
        ).eval()
        model.qconfig = quantization.get_default_qconfig("fbgemm")
        models.append((library, quantization, model))
    return models


LAYERS = {
    "batch_norm_2d": (lambda nn: nn.BatchNorm2d(4), (2, 4, 5, 6)),
    "batch_norm_3d": (lambda nn: nn.BatchNorm3d(4), (2, 4, 3, 5, 6)),
    "elu": (lambda nn: nn.ELU(0.8), (3, 7)),
    "hardswish": (lambda nn: nn.Hardswish(), (3, 7)),
    "leaky_relu": (lambda nn: nn.LeakyReLU(0.2), (3, 7)),
    "relu6": (lambda nn: nn.ReLU6(), (3, 7)),
    "layer_norm": (lambda nn: nn.LayerNorm(7), (3, 7)),
    "group_norm": (lambda nn: nn.GroupNorm(2, 4), (2, 4, 5)),
    "instance_norm_1d": (lambda nn: nn.InstanceNorm1d(4), (2, 4, 9)),
    "instance_norm_2d": (lambda nn: nn.InstanceNorm2d(4, affine=True), (2, 4, 5, 6)),
    "conv_transpose": (lambda nn: nn.ConvTranspose2d(4, 3, 3, 2, output_padding=1), (2, 4, 5, 6)),
    "lstm": (lambda nn: nn.LSTM(5, 6), (4, 3, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_convert_makes(name):
    make, shape = LAYERS[name]
    outputs, layers = [], []
    for library, quantization, model in observed(make):
        if name == "conv_transpose":
            model.qconfig = quantization.default_qconfig
        if name == "lstm":
            quant, layer = model[0], model[1]
            model = library.nn.ModuleList([quant, layer]).eval()
            model.qconfig = quantization.get_default_qconfig("fbgemm")
        model = quantization.prepare(model)
        for number in range(3):
            torch.manual_seed(number)
            x = of(library, torch.randn(shape) * (1 + number))
            model[1](model[0](x)) if name == "lstm" else model(x)
        model = quantization.convert(model)
        y = model[1](model[0](x))
        outputs.append(y[0] if isinstance(y, tuple) else y)
        layers.append(model[1])
    close(*outputs, steps=2 if name == "lstm" else 1)
    assert type(layers[0]).__name__ == type(layers[1]).__name__
    assert type(layers[1]).__module__.startswith("rushlight.ao.nn.quantized")


@pytest.mark.parametrize("dtype", ["qint8", "float16"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("options", [
    {}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True},
])  # fmt: skip
def test_dynamic_recurrent_layers(kind, options, dtype):
    torch.manual_seed(0)
    source = torch.nn.ModuleList([getattr(torch.nn, kind)(6, 5, **options)])
    other = rushlight.nn.ModuleList([getattr(rushlight.nn, kind)(6, 5, **options)])
    copy_parameters(source, other)
    x = torch.randn(4, 3, 6)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        x, [2, 4, 1] if not options.get("batch_first") else [2, 3, 1, 3],
        batch_first=bool(options.get("batch_first")), enforce_sorted=False,
    )  # fmt: skip
    results = []
    for library, quantization, model in ((torch, theirs, source), (rushlight, own, other)):
        model = quantization.quantize_dynamic(model, dtype=getattr(library, dtype))
        result, state = model[0](of(library, x))
        sequence = packed
        if library is rushlight:
            sequence = rushlight.nn.utils.rnn.pack_padded_sequence(
                of(library, x), [2, 4, 1] if not options.get("batch_first") else [2, 3, 1, 3],
                batch_first=bool(options.get("batch_first")), enforce_sorted=False,
            )  # fmt: skip
        again, last = model[0](sequence)
        state = state if isinstance(state, tuple) else (state,)
        last = last if isinstance(last, tuple) else (last,)
        results.append((repr(model[0]), result, *state, again.data, *last))
    assert results[0][0] == results[1][0]
    for a, b in zip(results[0][1:], results[1][1:], strict=True):
        same(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_dynamic_cells(kind):
    torch.manual_seed(0)
    source = torch.nn.ModuleList([getattr(torch.nn, kind)(6, 5)])
    other = rushlight.nn.ModuleList([getattr(rushlight.nn, kind)(6, 5)])
    copy_parameters(source, other)
    x = torch.randn(4, 6)
    results = []
    for library, quantization, model in ((torch, theirs, source), (rushlight, own, other)):
        model = quantization.quantize_dynamic(model)
        state = model[0](of(library, x))
        results.append((repr(model[0]), state if isinstance(state, tuple) else (state,)))
    assert results[0][0] == results[1][0]
    for a, b in zip(results[0][1], results[1][1], strict=True):
        same(a, b, rtol=0, atol=1e-5)


def test_float16_weights_are_torchs():
    torch.manual_seed(0)
    source = torch.nn.Sequential(torch.nn.Linear(6, 5))
    other = rushlight.nn.Sequential(rushlight.nn.Linear(6, 5))
    copy_parameters(source, other)
    x = torch.randn(4, 6)
    a = theirs.quantize_dynamic(source, dtype=torch.float16)
    b = own.quantize_dynamic(other, dtype=rushlight.float16)
    assert repr(a) == repr(b)
    same(a(x), b(of(rushlight, x)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("number", [0.3, -7.0, 2.0, 60.0, -60.0, 0.0])
@pytest.mark.parametrize("name", ["add_scalar", "mul_scalar"])
def test_numbers_in_functional_modules(name, number):
    x = image(3, 5)
    close(*(
        getattr(library.ao.nn.quantized.QFunctional(), name)(quantized(library, x), number)
        for library in LIBRARIES
    ))  # fmt: skip


def test_quantizable_attention():
    torch.manual_seed(0)
    source = torch.nn.MultiheadAttention(8, 2, bias=True).eval()
    other = rushlight.nn.MultiheadAttention(8, 2, bias=True).eval()
    copy_parameters(source, other)
    x, y = torch.randn(4, 3, 8), torch.randn(5, 3, 8)
    mask = torch.zeros(4, 5)
    mask[0, 2:] = -torch.inf
    plain = source(x, y, y, attn_mask=mask)
    outputs = []
    for library, quantization, layer in ((torch, theirs, source), (rushlight, own, other)):
        layer.qconfig = quantization.get_default_qconfig("fbgemm")
        made = library.ao.nn.quantizable.MultiheadAttention.from_float(layer)
        inputs = [of(library, t) for t in (x, y, y)]
        made(*inputs, attn_mask=of(library, mask))
        outputs.append(made(*inputs, attn_mask=of(library, mask)))
        result = library.ao.nn.quantized.MultiheadAttention.from_observed(made)
        quantized_inputs = [
            library.quantize_per_tensor(t, 0.03, 100, library.quint8) for t in inputs
        ]
        outputs.append(result(*quantized_inputs, attn_mask=of(library, mask)))
    for a, b, c in zip(outputs[0], outputs[2], plain):
        same(a, b, rtol=1e-5, atol=1e-6)
        same(c, b, rtol=1e-5, atol=1e-6)
    for a, b in zip(outputs[1], outputs[3]):
        close(a, b, steps=2)


# --- methods of layers


def qparams(library):
    return {"dtype": library.qint8, "qscheme": library.per_tensor_affine, "scale": 0.01,
            "zero_point": 0, "is_decomposed": False}  # fmt: skip


def reference(library):
    return library.ao.nn.quantized.reference


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_of_reference_layers(kind):
    found = []
    plain = getattr(torch.nn, kind)(4, 3, 2, bidirectional=True)
    x, hidden = image(5, 2, 4), torch.ones(4, 2, 3)
    for library in LIBRARIES:
        layer = getattr(library.nn, kind)(4, 3, 2, bidirectional=True)
        if library is rushlight:
            copy_parameters(plain, layer)
        else:
            layer = plain
        names = [name for name, _ in layer.named_parameters() if "weight" in name]
        own_layer = getattr(reference(library), kind).from_float(
            layer, {"is_decomposed": False, **{name: qparams(library) for name in names}}
        )
        weights = own_layer.get_quantized_weight_bias_dict()
        assert list(weights) == [name for name, _ in plain.named_parameters()]
        assert weights["weight_hh_l1"].is_quantized and not weights["bias_hh_l1"].is_quantized
        fast = getattr(library.ao.nn.quantized.dynamic, kind).from_reference(own_layer)
        state = of(library, hidden)
        state = (state, state) if kind == "LSTM" else state
        results = fast.forward_tensor(of(library, x), state)
        packed = library.nn.utils.rnn.pack_padded_sequence(
            of(library, x), [3, 5], enforce_sorted=False
        )
        again = fast.forward_packed(packed, state)
        order = library.tensor([1, 0])
        ends = fast.permute_hidden(again[1], order)
        found.append([
            results[0], *(results[1] if kind == "LSTM" else [results[1]]), again[0].data,
            *(ends if kind == "LSTM" else [ends]),
        ])  # fmt: skip
        assert fast.get_expected_hidden_size(of(library, x), None) == (4, 2, 3)
        assert fast.get_expected_hidden_size(packed.data, packed.batch_sizes) == (4, 2, 3)
        with pytest.raises(RuntimeError, match=r"input must have 3 dimensions, got 2"):
            fast.check_input(of(library, x)[0], None)
        with pytest.raises(RuntimeError, match=r"Expected 4, got 3"):
            fast.check_input(of(library, x)[..., :3], None)
        wrong = of(library, hidden)[:3]
        text = r"Expected hidden(\[0\])? size \(4, 2, 3\), got \[3, 2, 3\]"
        with pytest.raises(RuntimeError, match=text):
            fast.forward_tensor(of(library, x), (wrong, wrong) if kind == "LSTM" else wrong)
    for expected, actual in zip(*found, strict=True):
        same(expected, actual, atol=2e-2)
    with pytest.raises(AssertionError, match="reference"):
        getattr(rushlight.ao.nn.quantized.dynamic, kind).from_reference(rushlight.nn.Linear(1, 1))


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells_of_reference_cells(kind):
    found, x, hidden = [], image(2, 4), torch.full((2, 3), 0.5)
    plain = getattr(torch.nn, kind)(4, 3)
    for library in LIBRARIES:
        cell = plain
        if library is rushlight:
            cell = getattr(library.nn, kind)(4, 3)
            copy_parameters(plain, cell)
        slow = getattr(reference(library), kind).from_float(
            cell,
            {
                "is_decomposed": False,
                "weight_ih": qparams(library),
                "weight_hh": qparams(library),
            },  # fmt: skip
        )
        bases = reference(library).modules.rnn.RNNCellBase, library.nn.RNNCellBase
        assert all(isinstance(slow, base) for base in bases)
        fast = getattr(library.ao.nn.quantized.dynamic, kind).from_reference(slow)
        state = of(library, hidden)
        states = (state, state) if kind == "LSTMCell" else state
        result = fast(of(library, x), states)
        found.append(result if kind == "LSTMCell" else [result])
        for text, call in (
            ("got 3, expected 4", lambda: fast.check_forward_input(state)),  # noqa: B023
            ("batch size 1 doesn't match hiddenX batch size 2",
             lambda: fast.check_forward_hidden(of(library, x)[:1], state, "X")),  # noqa: B023
            ("hidden has inconsistent hidden_size: got 2, expected 3",
             lambda: fast.check_forward_hidden(of(library, x), state[:, :2])),  # noqa: B023
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match=text):
                call()
    for expected, actual in zip(*found, strict=True):
        same(expected, actual, atol=2e-2)


def test_embeddings_of_reference_layers():
    found, weight = [], image(5, 8)
    for library in LIBRARIES:
        rows = {"scale": library.full((5,), 0.02), "zero_point": library.full((5,), 100.0),
                "qscheme": library.per_channel_affine_float_qparams, "axis": 0,
                "dtype": library.quint8}  # fmt: skip
        both = []
        for name, inputs in (("Embedding", ([1, 3],)), ("EmbeddingBag", ([1, 3, 4], [0, 2]))):
            named = {"mode": "sum"} if name == "EmbeddingBag" else {}
            plain = getattr(library.nn, name)(5, 8, _weight=of(library, weight), **named)
            slow = getattr(reference(library), name).from_float(plain, rows)
            fast = getattr(library.ao.nn.quantized, name).from_reference(slow)
            both.append(fast(*map(library.tensor, inputs)))
        found.append(both)
    for expected, actual in zip(*found, strict=True):
        same(expected, actual, atol=1e-5)


@pytest.mark.parametrize("name", ["Conv2d", "ConvReLU2d"])
def test_convolutions_of_observed_ones(name):
    x = image(1, 2, 6, 6)
    found, plain = [], None
    for library in LIBRARIES:
        made = getattr(library.nn, name.replace("ReLU", ""))(2, 3, 3, padding=1)
        if plain is None:
            plain = copy.deepcopy(made)
        else:
            copy_parameters(plain, made)
        quantization = library.ao.quantization
        seen = quantization.MinMaxObserver()
        seen(made(of(library, x)))
        observer = quantization.MinMaxObserver(
            dtype=library.qint8, qscheme=library.per_tensor_symmetric
        )
        home = library.ao.nn.intrinsic.quantized if "ReLU" in name else library.ao.nn.quantized
        layer = getattr(home, name).get_qconv(made, seen, observer)
        found.append(layer(quantized(library, x)))
        if library is rushlight:
            made.qconfig = quantization.default_qconfig
            assert type(layer).get_qconv(made, None).scale == 1.0
            with pytest.raises(AssertionError, match="must have a dtype of qint8"):
                type(layer).get_qconv(made, None, quantization.MinMaxObserver())
    close(*found)


def test_transposed_convolutions_of_observed_ones():
    """Of these torch's own results are far off with weights of 8 bits."""
    rushlight.manual_seed(0)
    made, x = rushlight.nn.ConvTranspose2d(2, 3, 3, padding=1), of(rushlight, image(1, 2, 6, 6))
    made.qconfig, seen = own.default_qconfig, own.MinMaxObserver()
    seen(made(x))
    layer = rushlight.ao.nn.quantized.ConvTranspose2d.get_qconv(made, seen)
    same(made(x), layer(quantized(rushlight, of(torch, image(1, 2, 6, 6)), 0.03, 128)).dequantize(),
         atol=0.05)  # fmt: skip


def test_norms_of_trained_layers_are_reset():
    for library in LIBRARIES:
        qat = library.ao.nn.intrinsic.qat
        qconfig = library.ao.quantization.get_default_qat_qconfig("fbgemm")
        for layer in (qat.ConvBn2d(2, 64, 3, bias=True, qconfig=qconfig),
                      qat.ConvBnReLU1d(2, 64, 3, bias=True, qconfig=qconfig),
                      qat.LinearBn1d(2, 64, qconfig=qconfig)):  # fmt: skip
            with library.no_grad():  # torch's bias of a Linear is memory as it is
                layer.bn.bias.fill_(3.0), layer.bn.running_mean.fill_(4.0), layer.bias.fill_(9.0)
            layer.reset_bn_parameters()
            assert layer.bn.running_mean.sum() == 0 and layer.bn.bias.sum() == 0
            assert 0 <= layer.bn.weight.min() < 0.2 < 0.8 < layer.bn.weight.max() <= 1
            if "Conv" in type(layer).__name__:
                bound = layer.weight[0].numel() ** -0.5
                assert 0.8 * bound < layer.bias.abs().max() <= bound
            else:  # that of a Linear stays
                assert bool((layer.bias == 9.0).all())


def test_observers_begin_anew():
    for library in LIBRARIES:
        quantization = library.ao.quantization
        observer = quantization.HistogramObserver(bins=4)
        observer(library.linspace(-9, 9, 50))
        x = library.tensor([0.0, 0.1, 0.3, 0.9, 1.0, 7.0])
        observer.reset_histogram(x, library.tensor(0.0), library.tensor(1.0))
        assert observer.histogram.tolist() == [2, 1, 0, 2]
        assert (observer.min_val.item(), observer.max_val.item()) == (0, 1)
        with pytest.raises(AssertionError, match="must be scalar"):
            observer.reset_histogram(x, library.zeros(2), library.ones(2))
        with pytest.raises(NotImplementedError):
            observer.reset_min_max_vals()
        seen = quantization.MinMaxObserver()
        seen(x)
        seen.reset_min_max_vals()
        assert seen.min_val == float("inf")
