"""Quantization beside torch's: the same integers, scales, gradients and models."""

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight.ao import quantization as own  # noqa: E402

theirs = torch.ao.quantization
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
nan, inf = float("nan"), float("inf")


def ours(tensor):
    """The same tensor here."""
    return rushlight.from_numpy(tensor.detach().contiguous().numpy().copy())


def same(expected, actual):
    a, b = expected.detach().double().numpy(), actual.detach().double().numpy()
    assert a.shape == b.shape
    assert np.array_equal(a, b, equal_nan=True), (a[a != b][:5], b[a != b][:5])


def numbers():
    torch.manual_seed(0)
    x = torch.randn(4, 37) * 5
    x[0, :9] = torch.tensor([nan, inf, -inf, 1e30, 0.5, 1.5, 2.5, -0.5, -0.0])
    return x


RANGES = [(1.0, 3, 0, 255), (0.037, 0, -128, 127), (0.5, 7, 0, 15), (0.1, -3, -8, 7)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize(("scale", "zero", "low", "high"), RANGES)
@pytest.mark.parametrize("tensors", [False, True])
def test_fake_quantize_per_tensor(dtype, scale, zero, low, high, tensors):
    results = []
    for library, x in ((torch, numbers()), (rushlight, ours(numbers()))):
        x = x.to(getattr(library, dtype)).requires_grad_()
        steps = scale, zero
        if tensors:
            steps = library.tensor([scale]), library.tensor([zero], dtype=library.int32)
        y = library.fake_quantize_per_tensor_affine(x, *steps, low, high)
        y.sum().backward()
        results.append((y.float(), x.grad.float()))
    for expected, actual in zip(*results, strict=True):
        same(expected, actual)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("scale", "zero", "low", "high"), RANGES)
@pytest.mark.parametrize("zero_dtype", ["int32", "float32"])
def test_fake_quantize_per_channel(dtype, scale, zero, low, high, zero_dtype):
    scales = torch.tensor([scale, scale * 2, scale / 3, 1.0])
    zeros = torch.tensor([zero, 0, 1, 2]).to(getattr(torch, zero_dtype))
    zeros = zeros + 0.3 if zero_dtype == "float32" else zeros
    results = []
    for library, make in ((torch, lambda t: t.clone()), (rushlight, ours)):
        x = make(numbers()).to(getattr(library, dtype)).requires_grad_()
        y = library.fake_quantize_per_channel_affine(x, make(scales), make(zeros), 0, low, high)
        y.sum().backward()
        results.append((y.float(), x.grad.float()))
    for expected, actual in zip(*results, strict=True):
        same(expected, actual)


def test_learned_steps():
    x = torch.randn(5, 6) * 4
    results = []
    for library, make in ((torch, lambda t: t.clone()), (rushlight, ours)):
        leaves = [make(t).requires_grad_() for t in (x, torch.tensor([0.3]), torch.tensor([3.2]))]
        y = library._fake_quantize_learnable_per_tensor_affine(*leaves, 0, 15, 0.5)
        y.pow(2).sum().backward()
        results.append((y, *[leaf.grad for leaf in leaves]))
    (y1, *grads1), (y2, *grads2) = results
    same(y1, y2)
    for a, b in zip(grads1, grads2, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["qint8", "quint8", "qint32"])
@pytest.mark.parametrize(("scale", "zero"), [(1.0, 3), (0.07, 5), (1e-3, 0)])
def test_quantized_tensors(dtype, scale, zero):
    x = numbers()
    if dtype == "qint32":
        x = x.clamp(-1000, 1000).nan_to_num()  # at the ends of 32 bits torch's result overflows
    a = torch.quantize_per_tensor(x, scale, zero, getattr(torch, dtype))
    b = rushlight.quantize_per_tensor(ours(x), scale, zero, getattr(rushlight, dtype))
    same(a.int_repr(), b.int_repr())
    same(a.dequantize(), b.dequantize())
    assert (a.q_scale(), a.q_zero_point()) == (b.q_scale(), b.q_zero_point())
    assert str(a.qscheme()) == str(b.qscheme()) and str(a.dtype) == str(b.dtype)
    assert repr(a[1:, :3]) == repr(b[1:, :3])


@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
def test_tensors_quantized_per_channel(dtype):
    x, scales, zeros = numbers(), torch.rand(4) + 0.1, torch.arange(4)
    a = torch.quantize_per_channel(x, scales, zeros, 0, getattr(torch, dtype))
    b = rushlight.quantize_per_channel(
        ours(x), ours(scales), ours(zeros), 0, getattr(rushlight, dtype)
    )
    same(a.int_repr(), b.int_repr())
    same(a.dequantize(), b.dequantize())
    same(a.q_per_channel_scales(), b.q_per_channel_scales())
    assert repr(a) == repr(b)


def test_choosing_steps():
    rng = np.random.default_rng(0)
    for _ in range(100):
        x = rng.standard_normal(5) * 10 ** rng.uniform(-6, 3) + rng.integers(-1, 2)
        x = torch.from_numpy(x).float()
        for reduced in (False, True):
            expected = torch._choose_qparams_per_tensor(x, reduced)
            assert rushlight._choose_qparams_per_tensor(ours(x), reduced) == expected


OBSERVERS = [
    ("MinMaxObserver", {}),
    ("MinMaxObserver", {"dtype": "qint8", "qscheme": "per_tensor_symmetric"}),
    ("MinMaxObserver", {"quant_min": 0, "quant_max": 127}),
    ("MinMaxObserver", {"reduce_range": True}),
    ("MovingAverageMinMaxObserver", {}),
    ("PerChannelMinMaxObserver", {}),
    ("PerChannelMinMaxObserver", {"dtype": "qint8", "qscheme": "per_channel_symmetric"}),
    ("PerChannelMinMaxObserver", {"qscheme": "per_channel_affine_float_qparams", "ch_axis": 1}),
    ("MovingAveragePerChannelMinMaxObserver", {"ch_axis": 1}),
    ("HistogramObserver", {}),
    ("HistogramObserver", {"reduce_range": True, "bins": 256}),
    ("HistogramObserver", {"dtype": "qint8", "qscheme": "per_tensor_symmetric"}),
    ("FixedQParamsObserver", {"scale": 0.5, "zero_point": 3}),
]


@pytest.mark.parametrize(("name", "options"), OBSERVERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_observers(name, options, seed):
    torch.manual_seed(seed)
    inputs = [torch.randn(6, 50) * (i + 1) + i for i in range(4)]
    results = []
    for library, home, make in ((torch, theirs, lambda t: t), (rushlight, own, ours)):
        given = {k: getattr(library, v) if isinstance(v, str) else v for k, v in options.items()}
        observer = getattr(home, name).with_args(**given)()
        for x in inputs:
            observer(make(x))
        results.append((observer.calculate_qparams(), observer.state_dict()))
    for expected, actual in zip(results[0][0], results[1][0], strict=True):
        same(expected, actual)
    assert list(results[0][1]) == list(results[1][1])


@pytest.mark.parametrize("backend", ["fbgemm", "x86", "qnnpack", "onednn"])
@pytest.mark.parametrize("version", [0, 1])
def test_fake_quantizing_modules(backend, version):
    results = []
    x = torch.randn(6, 50)
    for home, make in ((theirs, lambda t: t), (own, ours)):
        config = home.get_default_qat_qconfig(backend, version)
        found = []
        for kind in (config.activation, config.weight):
            module = kind()
            for i in range(3):
                y = module(make(x * (i + 1)))
            found += [y, module.scale, module.zero_point]
        results.append(found)
    for expected, actual in zip(*results, strict=True):
        same(expected, actual)


def copy_of(model, other):
    """`other` with the parameters of a model of torch's."""
    other.load_state_dict({name: ours(t) for name, t in model.state_dict().items()})
    return other


@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic_quantization(per_channel):
    def build(nn):
        return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

    a = build(torch.nn)
    b = copy_of(a, build(rushlight.nn))
    x = torch.randn(7, 3, 32)
    name = "per_channel_dynamic_qconfig" if per_channel else "default_dynamic_qconfig"
    qa = theirs.quantize_dynamic(a, {torch.nn.Linear: getattr(theirs, name)})
    qb = own.quantize_dynamic(b, {rushlight.nn.Linear: getattr(own, name)})
    assert repr(qa).replace("torch.", "") == repr(qb).replace("torch.", "")
    assert list(qa.state_dict()) == list(qb.state_dict())
    for i in (0, 2):
        same(qa[i].weight().int_repr(), qb[i].weight().int_repr())
    first = qa[0](x).numpy()
    np.testing.assert_allclose(first, qb[0](ours(x)).numpy(), rtol=1e-5, atol=1e-6)
    # Of two layers a value on an edge may be rounded the other way.
    np.testing.assert_allclose(qa(x).numpy(), qb(ours(x)).numpy(), atol=0.02)


def network(nn, home):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = home.QuantStub(), home.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
            self.down, self.fc = nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.Linear(8, 5)
            self.sums, self.pool = nn.quantized.FloatFunctional(), nn.AdaptiveAvgPool2d(1)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            x = self.sums.add(self.down(x), x[:, :, ::2, ::2])
            return self.dequant(self.fc(self.pool(x).flatten(1)))

    return Network()


def pair():
    torch.manual_seed(1)
    a = network(torch.nn, theirs)
    a.bn.running_mean.uniform_(-0.2, 0.2)
    a.bn.running_var.uniform_(0.5, 2)
    return a, copy_of(a, network(rushlight.nn, own))


@pytest.mark.parametrize("backend", ["x86", "qnnpack"])
def test_static_quantization(backend, monkeypatch):
    # Without VNNI, torch's other engines add up in 16 bits, which qnnpack's ranges leave.
    monkeypatch.setattr(torch.backends.quantized, "engine", backend)
    a, b = (model.eval() for model in pair())
    x = torch.randn(16, 3, 10, 10)
    results = []
    for home, model, x_ in ((theirs, a, x), (own, b, ours(x))):
        model = home.fuse_modules(model, [["conv", "bn", "relu"]])
        model.qconfig = home.get_default_qconfig(backend)
        model = home.prepare(model)
        model(x_)
        results.append((home.convert(model), x_))
    (qa, xa), (qb, xb) = results
    assert [type(m).__name__ for m in qa.children()] == [type(m).__name__ for m in qb.children()]
    for name in ("conv", "down", "fc", "sums"):
        left, right = getattr(qa, name), getattr(qb, name)
        assert left.zero_point == right.zero_point
        assert left.scale == pytest.approx(right.scale, rel=1e-5)
    same(qa.fc.weight().int_repr(), qb.fc.weight().int_repr())
    difference = np.abs(qa(xa).numpy() - qb(xb).numpy())
    assert difference.max() <= qa.fc.scale * 1.01


def test_training_with_quantization_in_view():
    x = torch.randn(8, 3, 10, 10)
    results = []
    for library, home, model, x_ in zip(
        (torch, rushlight), (theirs, own), pair(), (x, ours(x)), strict=True
    ):
        model = home.fuse_modules_qat(model.train(), [["conv", "bn", "relu"]])
        model.qconfig = home.get_default_qat_qconfig("x86")
        model = home.prepare_qat(model)
        optimizer = library.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x_).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        quantized = home.convert(copy.deepcopy(model).eval())
        results.append(
            (losses, quantized(x_).numpy(), quantized.fc.scale, list(model.state_dict()))
        )
    (losses, expected, scale, names), (own_losses, actual, _, own_names) = results
    np.testing.assert_allclose(own_losses, losses, rtol=1e-3)
    assert sorted(names) == sorted(own_names)
    assert np.abs(expected - actual).max() <= 2.01 * scale


@pytest.mark.parametrize("name", ["default_dynamic_qconfig", "per_channel_dynamic_qconfig"])
def test_state_of_quantized_models_in_files(name, tmp_path):
    a, b = (
        torch.nn.Sequential(torch.nn.Linear(4, 3)),
        rushlight.nn.Sequential(rushlight.nn.Linear(4, 3)),
    )
    qa = theirs.quantize_dynamic(a, {torch.nn.Linear: getattr(theirs, name)})
    qb = own.quantize_dynamic(b, {rushlight.nn.Linear: getattr(own, name)})
    torch.save(qa.state_dict(), tmp_path / "a.pt")
    rushlight.save(qb.state_dict(), tmp_path / "b.pt")
    expected = [w.weight().dequantize() for w in (qa[0], qb[0])]
    qb.load_state_dict(rushlight.load(tmp_path / "a.pt"))
    same(expected[0], qb[0].weight().dequantize())
    qa.load_state_dict(torch.load(tmp_path / "b.pt"))
    same(qa[0].weight().dequantize(), expected[1])


def test_quantized_embeddings():
    a = torch.nn.Sequential(torch.nn.Embedding(20, 16))
    b = copy_of(a, rushlight.nn.Sequential(rushlight.nn.Embedding(20, 16)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        qa = theirs.quantize_dynamic(
            a, {torch.nn.Embedding: theirs.float_qparams_weight_only_qconfig}
        )
    qb = own.quantize_dynamic(b, {rushlight.nn.Embedding}, dtype=rushlight.quint8)
    indices = torch.randint(0, 20, (3, 4))
    np.testing.assert_allclose(qa(indices).numpy(), qb(ours(indices)).numpy(), rtol=1e-5, atol=1e-6)
