"""Quantized tensors and models."""

import copy
import io
import pickle

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.ao import quantization
from rushlight.ao.quantization import quantize_dynamic, quantize_weight_only


def quantized(*shape, dtype=torch.quint8):
    torch.manual_seed(0)
    return torch.quantize_per_tensor(torch.randn(*shape), 0.1, 7, dtype)


def test_a_quantized_tensor_says_what_it_is():
    q = quantized(2, 3)
    assert q.is_quantized and q.dtype is torch.quint8 and q.int_repr().dtype is torch.uint8
    assert (q.q_scale(), q.q_zero_point(), q.qscheme()) == (0.1, 7, torch.per_tensor_affine)
    assert torch.equal(q.dequantize(), (q.int_repr().int() - 7).float() * 0.1)
    assert q.element_size() == 1 and q.shape == (2, 3)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.t(), lambda x: x.reshape(3, 2), lambda x: x[0], lambda x: x.flatten(),
        lambda x: x.unsqueeze(0), lambda x: x.relu(), lambda x: torch.cat([x, x]),
        lambda x: x.clone(), lambda x: x.permute(1, 0).contiguous(), lambda x: x.T, lambda x: x.mT,
    ],
)  # fmt: skip
def test_operations_on_quantized_tensors(move):
    q = quantized(2, 3)
    assert move(q).q_scale() == 0.1
    torch.testing.assert_close(move(q).dequantize(), move(q.dequantize()))


@pytest.mark.parametrize(
    "use",
    [lambda q: q + q, lambda q: q.exp(), lambda q: q @ q, lambda q: nn.functional.linear(q, q)],
)
def test_other_operations_refuse_by_name(use):
    with pytest.raises(NotImplementedError, match="not implemented for quantized tensors"):
        use(quantized(2, 2))


def test_quantized_tensors_are_copied_and_pickled():
    per_channel = torch.quantize_per_channel(
        torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 3]), 0, torch.qint8
    )
    for q in (quantized(2, 3), per_channel):
        assert torch.equal(copy.deepcopy(q), q)
        assert torch.equal(pickle.loads(pickle.dumps(q)), q)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 300, torch.quint8), RuntimeError,
         "zero_point must be from 0 to 255"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.int8), RuntimeError,
         "dtype must be qint8"),
        (lambda: torch.quantize_per_tensor(torch.ones(2).double(), 1.0, 0, torch.qint8),
         RuntimeError, "float32"),
        (lambda: torch.ones(2).q_scale(), NotImplementedError, "q_scale: needs a quantized"),
        (lambda: torch.fake_quantize_per_tensor_affine(torch.ones(2), 1.0, 9, 0, 5), RuntimeError,
         "zero_point must be from"),
        (lambda: torch.fake_quantize_per_tensor_affine(torch.ones(2), 1.0, 0, 5, 0), RuntimeError,
         "quant_min must be at most"),
        (lambda: torch.fake_quantize_per_channel_affine(
            torch.ones(2, 2), torch.ones(3), torch.zeros(3, dtype=torch.int32), 0, 0, 5),
         RuntimeError, "scale must have shape"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).eval()


def bytes_of(state):
    file = io.BytesIO()
    torch.save(state, file)
    return file


def test_dynamic_quantization_is_close_and_small():
    x, plain = torch.randn(9, 64), model()
    small = quantize_dynamic(plain, {nn.Linear})
    assert type(plain[0]) is nn.Linear and small[0].weight().dtype is torch.qint8
    error = (small(x) - plain(x)).norm() / plain(x).norm()
    assert error < 0.03
    assert bytes_of(small.state_dict()).tell() < 0.5 * bytes_of(plain.state_dict()).tell()


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_quantized_model_is_saved_and_loaded(per_channel):
    spec = {nn.Linear}
    if per_channel:
        spec = {nn.Linear: quantization.per_channel_dynamic_qconfig}
    small, x = quantize_dynamic(model(), spec), torch.randn(3, 64)
    file = bytes_of(small.state_dict())
    file.seek(0)
    torch.manual_seed(1)
    other = quantize_dynamic(nn.Sequential(*model()), spec)
    for layer in (other[0], other[2]):
        layer.bias().zero_()
    assert not torch.equal(other(x), small(x))
    other.load_state_dict(torch.load(file))
    assert torch.equal(other(x), small(x))


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_are_quantized_dynamically(kind, dtype):
    for options in ({}, {"num_layers": 2, "bidirectional": True}, {"bias": False}):
        plain = nn.ModuleList([kind(6, 5, batch_first=True, **options)])
        small = quantize_dynamic(plain, {kind}, dtype=dtype)
        x = torch.randn(3, 4, 6)
        for expected, found in (
            (plain[0](x)[0], small[0](x)[0]),
            (plain[0](x[0])[0], small[0](x[0])[0]),
        ):
            assert (expected - found).abs().max() < 0.05
        again = quantize_dynamic(
            nn.ModuleList([kind(6, 5, batch_first=True, **options)]), dtype=dtype
        )
        again.load_state_dict(small.state_dict())
        torch.testing.assert_close(again[0](x)[0], small[0](x)[0], rtol=0, atol=0)
        assert set(small[0].get_weight()) == {
            n for n in dict(plain[0].named_parameters()) if "weight" in n
        }
        file = io.BytesIO()
        torch.save(small, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        torch.testing.assert_close(loaded[0](x)[0], small[0](x)[0], rtol=0, atol=0)
        small[0].set_weight_bias({**again[0].get_weight(), **again[0].get_bias()})
        packed = nn.utils.rnn.pack_padded_sequence(x, [4, 2, 3], True, enforce_sorted=False)
        found, expected = small[0](packed)[0], plain[0](packed)[0]
        assert found.batch_sizes.tolist() == expected.batch_sizes.tolist()
        assert (expected.data - found.data).abs().max() < 0.05
    with pytest.raises(RuntimeError, match="Expected 6, got 7"):
        small[0](torch.randn(3, 4, 7))
    with pytest.raises(NotImplementedError, match="projections"):
        quantize_dynamic(nn.ModuleList([nn.LSTM(4, 4, proj_size=2)]))


@pytest.mark.parametrize(("bits", "bound"), [(8, 0.01), (4, 0.12)])
@pytest.mark.parametrize("group_size", [None, 16])
def test_weight_only(bits, bound, group_size):
    x, plain = torch.randn(9, 64), model()
    small = quantize_weight_only(plain, bits, group_size)
    assert small[0].integers.nbytes == plain[0].weight.numel() * bits // 8
    assert (small(x) - plain(x)).norm() / plain(x).norm() < bound
    weight = plain[0].weight.unflatten(1, (-1, small[0].group_size))
    step = small[0].scales.unsqueeze(2)
    error = (small[0].dequantized_weight().unflatten(1, (-1, small[0].group_size)) - weight).abs()
    assert (error <= step * 0.5001).all()


@pytest.mark.kernels
@pytest.mark.parametrize("rows", [1, 3, 4, 9, 64, 65])
@pytest.mark.parametrize(("bits", "group_size"), [(8, 32), (8, 96), (8, 192), (4, 32), (4, 64)])
def test_few_rows_are_multiplied_by_the_integers_as_they_lie(rows, bits, group_size):
    layer = quantize_weight_only(nn.Linear(192, 37), bits, group_size)
    x = torch.randn(rows, 192)
    weight = layer.dequantized_weight().double()
    exact = x.double() @ weight.t() + layer.bias.double()
    bound = 2e-7 * (x.double().abs() @ weight.abs().t() + 1)
    with torch.no_grad():
        for given in (x, x.t().contiguous().t()):
            assert ((layer(given) - exact).abs() <= bound).all()
        assert torch.equal(layer(x.reshape(1, rows, 192))[0], layer(x))
        half = layer(x.bfloat16())
        assert half.dtype is torch.bfloat16 and (half.double() - exact).norm() < exact.norm() / 50
    recorded = x.clone().requires_grad_()
    layer(recorded).sum().backward()
    torch.testing.assert_close(recorded.grad, weight.sum(0).float().expand(rows, 192))


def test_refusals_of_group_mm():
    x, integers, scales = torch.ones(2, 64), torch.ones(3, 64).char(), torch.ones(3, 2)
    assert torch.equal(torch._group_mm(x, integers, scales), torch.full((2, 3), 64.0))
    for args, message in [
        ((x[0], integers, scales), "input to be of dimension 2 but got 1"),
        ((x.double(), integers, scales), "float32 but got .*float64"),
        ((x, integers.int(), scales), "int8, or of uint8 .* but got .*int32"),
        ((x, integers.byte(), scales), "do not go with an input of shape"),
        ((x, integers, scales[:2]), "do not go with an input of shape"),
        ((x, integers, torch.ones(3, 4)), "multiple of 32 columns but got 4 groups of 64"),
        ((x, integers, torch.ones(3, 0)), "got 0 groups"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            torch._group_mm(*args)
    assert torch._group_mm(x[:0], integers, scales).shape == (0, 3)


def test_weight_only_is_saved_and_loaded():
    small, x = quantize_weight_only(model(), 4, 32), torch.randn(2, 64)
    file = bytes_of(small.state_dict())
    file.seek(0)
    other = quantize_weight_only(
        nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)), 4, 32
    )
    other.load_state_dict(torch.load(file))
    assert torch.equal(other(x), small(x))
    with pytest.raises(ValueError, match="group_size must divide"):
        quantize_weight_only(model(), 4, 48)


@pytest.mark.filterwarnings("ignore:reduce_range")
def test_norms_and_activations_have_quantized_forms():
    layers = [nn.LayerNorm(4), nn.Hardswish(), nn.ELU(), nn.LeakyReLU(), nn.ReLU6(), nn.Dropout()]
    net = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub())
    net.qconfig = quantization.get_default_qconfig("x86")
    prepared = quantization.prepare(net.eval())
    x = torch.randn(16, 4)
    expected = prepared(x)
    converted = quantization.convert(prepared)
    assert (converted(x) - expected).abs().max() < 0.1
    kinds = [type(layer) for layer in converted[1:-1]]
    assert [kind.__name__ for kind in kinds] == [type(layer).__name__ for layer in layers]
    assert all("quantized" in kind.__module__ for kind in kinds)
    again = quantization.prepare(net)
    again(torch.ones(2, 4))
    again = quantization.convert(again)
    again.load_state_dict(converted.state_dict())


def test_an_observer_sees_other_channels_after_its_state_was_taken():
    observer = torch.ao.quantization.PerChannelMinMaxObserver()
    kept = observer.state_dict()
    observer(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert observer.max_val.tolist() == [2, 5] and kept["max_val"].numel() == 0
    other = torch.ao.quantization.PerChannelMinMaxObserver()
    held = other.state_dict()
    other.load_state_dict(observer.state_dict())
    assert other.min_val.tolist() == [1, 3] and held["min_val"].numel() == 0
    observer.reset_min_max_vals()
    assert observer.min_val.numel() == 0 and other.min_val.numel() == 2


@pytest.mark.parametrize("kind", ["MinMaxObserver", "HistogramObserver"])
def test_observers_of_uint16(kind):
    observer = getattr(quantization, kind)(dtype=torch.uint16)
    observer(torch.tensor([-1.0, 3.0]))
    scale, zero_point = observer.calculate_qparams()
    assert (observer.quant_min, observer.quant_max) == (0, 65535)
    assert scale.item() == pytest.approx(4 / 65535, rel=1e-2)
    assert zero_point.item() == pytest.approx(65535 / 4, rel=1e-2)


def test_limits_of_quantized_dtypes():
    for name, low, high in (("qint8", -128, 127), ("quint8", 0, 255), ("qint32", -(2**31), None)):
        limits = torch.iinfo(getattr(torch, name))
        assert limits.min == low and (high is None or limits.max == high)


def test_scales_of_channels_are_float32():
    with pytest.raises(RuntimeError, match="scale must be of float32"):
        torch.fake_quantize_per_channel_affine(
            torch.ones(2, 3), torch.ones(3).double(), torch.zeros(3, dtype=torch.int32), 1, 0, 255
        )


def test_layers_with_parametrizations_are_quantized_as_what_they_were():
    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * weight

    model = nn.Sequential(quantization.QuantStub(), nn.Linear(3, 2), quantization.DeQuantStub())
    plain = copy.deepcopy(model)
    plain[1].weight.data *= 2
    nn.utils.parametrize.register_parametrization(model[1], "weight", Twice())
    results = []
    for made in (model, plain):
        made.qconfig = quantization.QConfig(
            activation=quantization.MinMaxObserver.with_args(),
            weight=quantization.default_weight_observer,
        )
        prepared = quantization.prepare(made.eval())
        assert hasattr(prepared[1], "activation_post_process")
        x = torch.linspace(-1, 1, 12).view(4, 3)
        prepared(x)
        converted = quantization.convert(prepared)
        assert type(converted[1]) is torch.ao.nn.quantized.Linear
        results.append(converted(x))
    assert results[0].equal(results[1])


class Masked(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = nn.Buffer(mask)

    def forward(self, weight):
        return weight * self.mask


def with_mask(layer):
    mask = Masked(torch.eye(3).view_as(layer.weight))
    nn.utils.parametrize.register_parametrization(layer, "weight", mask)
    return mask


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_mask_that_changes_while_layers_are_trained_for_quantization(in_graph):
    layers = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model = nn.Sequential(*layers)
    masks = [with_mask(layers[0]), with_mask(layers[1][0])]
    if in_graph:
        mapping = quantization.get_default_qat_qconfig_mapping("qnnpack")
        prepared = quantization.quantize_fx.prepare_qat_fx(model.train(), mapping, (torch.ones(3),))
    else:
        model = quantization.QuantWrapper(model)
        model.qconfig = quantization.get_default_qat_qconfig("qnnpack")
        prepared = quantization.prepare_qat(model.train(), inplace=True)
    for mask in masks:  # the layers that are trained have the same one
        mask.mask[0] = 0
    x = torch.randn(4, 3)
    prepared(x).sum().backward()
    convert = quantization.quantize_fx.convert_fx if in_graph else quantization.convert
    converted = convert(prepared.eval())
    weights = [m.weight() for m in converted.modules() if callable(getattr(m, "weight", None))]
    assert len(weights) == 2
    for weight in weights:
        weight = weight.dequantize()
        assert not weight[0].any() and (weight[1:] != 0).equal(torch.eye(3)[1:] != 0)


def test_a_layer_that_was_trained_with_a_parametrization_gives_a_plain_one():
    layer = nn.Linear(3, 3)
    layer.qconfig = quantization.get_default_qat_qconfig("qnnpack")
    with_mask(layer)
    trained = torch.ao.nn.qat.Linear.from_float(layer)
    plain = trained.to_float()
    assert type(plain) is nn.Linear and plain.weight.equal(layer.weight)
    conv = nn.Conv2d(3, 3, 1)
    masked = with_mask(conv)
    pair = torch.ao.nn.intrinsic.ConvBn2d(conv, nn.BatchNorm2d(3)).train()
    pair.qconfig = layer.qconfig
    trained = torch.ao.nn.intrinsic.qat.ConvBn2d.from_float(pair)
    assert trained.parametrizations.weight[0] is masked


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.Hardswish])
def test_activations_in_place_follow_layers_that_are_trained(activation):
    model = nn.Sequential(nn.Linear(3, 4), activation(inplace=True), nn.Linear(4, 2))
    model.qconfig = quantization.get_default_qat_qconfig("qnnpack")
    prepared = quantization.prepare_qat(model.train())
    x = torch.randn(5, 3)
    prepared(x).sum().backward()
    grad = prepared[0].weight.grad.clone()
    prepared[1].inplace = False
    prepared.zero_grad()
    for module in prepared.modules():  # what the first run has seen stays as it was
        if hasattr(module, "disable_observer"):
            module.disable_observer()
    prepared(x).sum().backward()
    torch.testing.assert_close(prepared[0].weight.grad, grad)


def test_scales_of_channels_of_transposed_convolutions_are_refused():
    model = nn.Sequential(nn.ConvTranspose2d(1, 1, 1))
    model.qconfig = quantization.get_default_qconfig("x86")
    with pytest.raises(AssertionError, match="Per channel weight observer is not supported yet"):
        quantization.prepare(model.eval())
    layer = nn.Identity  # in place of an observer of weights, as in default_activation_only_qconfig
    model.qconfig = quantization.QConfig(quantization.MinMaxObserver.with_args(), layer)
    assert hasattr(quantization.prepare(model.eval())[0], "activation_post_process")


def test_synchronized_batch_norm_keeps_the_qconfig():
    layer = nn.BatchNorm1d(2)
    layer.qconfig = quantization.default_qconfig
    assert nn.SyncBatchNorm.convert_sync_batchnorm(layer).qconfig is layer.qconfig


def test_elements_of_quantized_tensors_are_set():
    def made():
        x = torch.arange(8.0).reshape(2, 4)
        return torch.quantize_per_tensor(x, 0.5, 2, torch.quint8)

    x = made()
    x[0] = 1.3
    x[1, :2] = torch.tensor([2.24, 1000.0])
    assert x.dequantize().tolist() == [[1.5] * 4, [2, 126.5, 6, 7]]
    x[1] = made()[0]
    assert x[1].dequantize().tolist() == [0, 1, 2, 3] and x.dtype is torch.quint8
    assert x.fill_(3.0) is x and x.dequantize().eq(3).all()
    mask = torch.tensor([True, False, True, False])
    assert made().masked_fill(mask, 0.5).dequantize()[1].tolist() == [0.5, 5, 0.5, 7]
    y = made()
    y.masked_fill_(mask, 0.5).index_put_((torch.tensor([1]),), torch.tensor(9.0))
    assert y.dequantize().tolist() == [[0.5, 1, 0.5, 3], [9] * 4]
    shuffled = torch.nn.functional.channel_shuffle(made().reshape(1, 8, 1, 1), 2)
    assert shuffled.dequantize().flatten().tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    empty = torch._empty_affine_quantized(
        (0, 1), scale=2.0, zero_point=1, dtype=torch.qint8, device="cpu"
    )
    assert repr(empty).count("size=") == 1 and empty.q_scale() == 2
    with pytest.raises(NotImplementedError, match="into an ordinary one"):
        torch.ones(4)[:] = made()[0]


def test_the_engine_that_a_program_names():
    engines = torch.backends.quantized
    assert engines.engine == "x86" and {"fbgemm", "qnnpack"} <= set(engines.supported_engines)
    try:
        for engine in engines.supported_engines:
            engines.engine = engine
            by_name, chosen = map(quantization.get_default_qconfig, (engine, engines.engine))
            assert str(by_name) == str(chosen)
        with pytest.raises(RuntimeError, match="abacus is not a valid value for quantized engine"):
            engines.engine = "abacus"
        assert engines.engine == engine
    finally:
        engines.engine = "x86"


def test_arguments_by_position_of_trained_layers_with_a_norm():
    qat = torch.ao.nn.intrinsic.qat
    config = quantization.get_default_qat_qconfig("x86")
    layer = qat.ConvBnReLU2d(2, 4, 3, 1, 1, 1, 2, True, "circular", 1e-3, 0.2, True, config)
    assert (layer.groups, layer.padding_mode, layer.padding) == (2, "circular", (1, 1))
    assert (layer.bn.eps, layer.bn.momentum, layer.bn.training) == (1e-3, 0.2, False)
    assert layer.bias.shape == (4,) and layer.freeze_bn and layer.qconfig is config
    assert layer(torch.ones(1, 2, 3, 3)).shape == (1, 4, 3, 3)
    layer = qat.LinearBn1d(2, 4, False, 1e-3, 0.2, False, config)
    assert layer.bias is None and layer.bn.eps == 1e-3
    with pytest.raises(AssertionError, match="ConvBn1d: qconfig"):
        qat.ConvBn1d(2, 4, 3)


@pytest.mark.filterwarnings("ignore:reduce_range is deprecated")
def test_observers_take_a_shape_while_a_state_dict_holds_what_they_had():
    for config in (
        quantization.get_default_qat_qconfig("x86"),
        quantization.get_default_qat_qconfig("x86", 0),
    ):
        model = nn.Sequential(nn.Linear(3, 4))
        model.qconfig = config
        quantization.prepare_qat(model.train(), inplace=True)
        held = model.state_dict()
        model(torch.randn(5, 3)).sum().backward()
        fake = model[0].weight_fake_quant
        assert fake.activation_post_process.min_val.shape == fake.scale.shape == (4,)
        assert held["0.weight_fake_quant.scale"].shape == (1,)
        held = model.state_dict()
        model(torch.randn(5, 3))
        assert held["0.weight_fake_quant.scale"].data_ptr() == fake.scale.data_ptr()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.pad(x, (1, 2, 0, 1)),
        lambda x: nn.functional.pad(x, (1, 1), value=1.0),
        lambda x: nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
        lambda x: nn.functional.pixel_shuffle(x, 2),
        lambda x: nn.functional.pixel_unshuffle(x, 2),
        lambda x: nn.functional.grid_sample(x, torch.zeros(1, 2, 2, 2), align_corners=False),
        lambda x: nn.functional.dropout(x, 0.5, False),
        nn.functional.gelu,
        torch.std,
    ],
)
def test_results_are_in_the_steps_of_the_input(function):
    q = quantized(1, 4, 4, 4)
    result, numbers = function(q), function(q.dequantize())
    expected = torch.quantize_per_tensor(numbers, 0.1, 7, torch.quint8)
    assert torch.equal(result, expected)
    empty = torch.empty_like(q)
    assert empty.shape == q.shape and (empty.q_scale(), empty.q_zero_point()) == (0.1, 7)
    with pytest.raises(NotImplementedError, match="dropout"):
        nn.functional.dropout(q)


def test_weights_are_quantized_as_their_observer_says():
    from rushlight.ao.nn.quantized.modules.utils import _quantize_weight

    weight = torch.tensor([[-1.0, 0.5, 0.25]])
    observer = quantization.default_weight_observer()
    observer(weight)
    made = _quantize_weight(weight, observer)
    assert made.dtype is torch.qint8 and made.q_scale() == observer.calculate_qparams()[0].item()
    torch.testing.assert_close(made.dequantize(), weight, rtol=0, atol=made.q_scale() / 2)
