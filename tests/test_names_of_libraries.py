"""What libraries built on torch look for beyond its documented names, and smaller modules."""

import inspect
import io
import pickle
import sys
import zipfile

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

# ---- lists of tensors


def lists():
    torch.manual_seed(0)
    return [[torch.rand(3) + 0.5, torch.rand(2, 2) + 0.5] for _ in range(3)]


@pytest.mark.parametrize(
    ("name", "args", "one"),
    [
        ("add", ("b", 2), lambda a, b: a + 2 * b), ("add", (2.0,), lambda a: a + 2.0),
        ("sub", ("b",), lambda a, b: a - b), ("mul", (3.0,), lambda a: a * 3),
        ("div", ("b",), lambda a, b: a / b), ("lerp", ("b", 0.3), lambda a, b: a + 0.3 * (b - a)),
        ("addcdiv", ("b", "c", 0.5), lambda a, b, c: a + 0.5 * b / c),
        ("addcmul", ("b", "c"), lambda a, b, c: a + b * c), ("pow", (2,), lambda a: a * a),
        ("maximum", ("b",), torch.maximum), ("clamp_max", (0.7,), lambda a: a.clamp(max=0.7)),
        ("clamp_min", (0.7,), lambda a: a.clamp(min=0.7)), ("sqrt", (), torch.sqrt),
        ("neg", (), torch.neg),
    ],
)  # fmt: skip
def test_foreach(name, args, one):
    a, b, c = lists()
    given = [{"b": b, "c": c}.get(x, x) if isinstance(x, str) else x for x in args]
    if name == "add" and len(given) == 2:
        given, options = given[:1], {"alpha": given[1]}
    else:
        options = {}
    of_lists = [x for x in (a, *given) if isinstance(x, list)]
    expected = [one(*column) for column in zip(*of_lists)]
    found = getattr(torch, f"_foreach_{name}")(a, *given, **options)
    assert isinstance(found, tuple)
    torch.testing.assert_close(list(found), expected)
    changed = [x.clone() for x in a]
    result = getattr(torch, f"_foreach_{name}_")(changed, *given, **options)
    assert all(x is y for x, y in zip(result, changed))
    torch.testing.assert_close(changed, expected)


def test_other_foreach():
    a, b, _ = lists()
    torch.testing.assert_close(torch._foreach_norm(a, 1), tuple(x.sum() for x in a))
    torch.testing.assert_close(torch._foreach_max(a), tuple(x.max() for x in a))
    torch._foreach_copy_(a, b)
    torch.testing.assert_close(a, b)
    torch._foreach_mul_(a, [1.0, 2.0])
    torch.testing.assert_close(a[1], b[1] * 2)
    torch._foreach_zero_(a)
    assert not any(x.any() for x in a)
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(a, b[:1])
    for name in ("_foreach_nothing", "_foreach_norm_", "_foreach_zero", "_foreach_copy"):
        assert not hasattr(torch, name)


# ---- sequences and scans


def test_sobol_sequences():
    engine = torch.quasirandom.SobolEngine(3)
    assert engine.draw(3).tolist() == [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25]]
    rest = engine.draw(61, dtype=torch.float64)
    again = torch.quasirandom.SobolEngine(3).fast_forward(3).draw(61, dtype=torch.float64)
    assert torch.equal(rest, again)
    everything = engine.reset().draw_base2(6)
    for column in everything.T:  # one point in each 64th
        assert (column * 64).long().sort().values.tolist() == list(range(64))
    with pytest.raises(ValueError, match="balance"):
        engine.draw_base2(3)
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="dimensionality"):
            torch.quasirandom.SobolEngine(dimension)
    assert repr(engine) == "SobolEngine(dimension=3)"


def test_scrambled_sobol_sequences():
    """The numbers are torch's."""
    points = torch.quasirandom.SobolEngine(3, scramble=True, seed=7).draw(3)
    expected = [[0.1995, 0.1709, 0.7494], [0.6922, 0.7115, 0.4898], [0.8505, 0.2963, 0.7880]]
    torch.testing.assert_close(points, torch.tensor(expected), atol=5e-5, rtol=0)
    many = torch.quasirandom.SobolEngine(2, scramble=True, seed=1).draw(64)
    for column in many.T:
        assert (column * 64).long().sort().values.tolist() == list(range(64))


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(size, reverse):
    from rushlight._higher_order_ops import associative_scan

    x = torch.randn(2, size, 3, dtype=torch.float64, requires_grad=True)
    found = associative_scan(torch.add, x, 1, reverse=reverse)
    expected = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    torch.testing.assert_close(
        *(torch.autograd.grad((y * weights).sum(), x)[0] for y in (found, expected))
    )

    def compose(f, g):  # of x -> a x + b, which does not commute
        return g[0] * f[0], g[0] * f[1] + g[1]

    a, b = torch.rand(size), torch.rand(size)
    value, values = torch.tensor(0.0), []
    for i in range(size):
        value = a[i] * value + b[i]
        values.append(value)
    if not reverse:
        torch.testing.assert_close(associative_scan(compose, (a, b), 0)[1], torch.stack(values))


def test_scans_that_are_not_possible():
    from rushlight._higher_order_ops import associative_scan

    with pytest.raises(ValueError, match="combine_mode"):
        associative_scan(torch.add, torch.ones(2), 0, combine_mode="x")
    with pytest.raises(ValueError, match="one size"):
        associative_scan(torch.add, (torch.ones(2), torch.ones(3)), 0)


# ---- counting


def test_the_flop_counter():
    from rushlight.utils.flop_counter import FlopCounterMode

    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 10))
    with FlopCounterMode(display=False) as counter:
        model(torch.randn(2, 3, 8, 8)).sum().backward()
    convolution, product = 2 * 2 * 4 * 36 * 27, 2 * 2 * 10 * 144
    assert counter.get_total_flops() == 2 * convolution + 3 * product  # the image needs no gradient
    counts = counter.get_flop_counts()
    assert sum(counts["Sequential.0"].values()) == 2 * convolution
    assert sum(counts["Sequential.2"].values()) == 3 * product
    assert counts["Sequential"] == counts["Global"]
    assert "Sequential.2" in counter.get_table()
    with FlopCounterMode(display=False) as counter:
        q = torch.randn(2, 4, 8, 16)
        F.scaled_dot_product_attention(q, q, q)
    assert counter.get_total_flops() == 2 * 2 * 4 * 8 * 8 * 16 * 2
    with FlopCounterMode(display=False) as counter:
        F.conv_transpose2d(torch.ones(1, 3, 4, 4), torch.ones(3, 5, 2, 2))
        torch.addmm(torch.ones(2), torch.ones(3, 4), torch.ones(4, 2))
    assert counter.get_total_flops() == 2 * 48 * 20 + 2 * 6 * 4


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.mm(x, x)

    @staticmethod
    def backward(ctx, grad):
        return torch.mm(grad, grad) + torch.mm(grad, grad)


def test_the_flop_counter_counts_by_operation_and_inside_of_functions():
    from rushlight.utils.flop_counter import FlopCounterMode

    aten, x = torch.ops.aten, torch.ones(5, 5, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        Squared.apply(x).sum().backward()
    assert counter.get_flop_counts()["Global"] == {aten.mm: 3 * 250}
    with FlopCounterMode(display=False) as counter:
        torch.einsum("ij,jk->ik", x, x)
        nn.Conv1d(2, 3, 2)(torch.ones(1, 2, 4, requires_grad=True)).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    assert counts == {aten.bmm: 250, aten.convolution: 72, aten.convolution_backward: 144}
    with FlopCounterMode(display=False) as counter:
        attention = nn.MultiheadAttention(8, 2, batch_first=True)
        attention(*[torch.ones(2, 3, 8)] * 3)
    assert counter.get_total_flops() >= 2 * 6 * 8 * 8 * 4  # of its four projections


def test_flops_by_a_formula_of_shapes_or_of_tensors():
    from rushlight.utils.flop_counter import FlopCounterMode, register_flop_formula

    def of_tensors(*args, out_val):
        return out_val.numel()

    of_tensors._get_raw = True
    add = torch.ops.aten.add
    for formula, expected in ((lambda *args, out_shape: out_shape[0], 4), (of_tensors, 20)):
        with FlopCounterMode(display=False, custom_mapping={add: formula}) as counter:
            torch.ones(4, 5) + 1
        assert counter.get_flop_counts()["Global"] == {add: expected}
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        register_flop_formula(add.Tensor)(of_tensors)


# ---- images as bytes


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_bytes_are_resized(mode, antialias):
    image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 2, 12, 17), np.uint8))
    for size in ((7, 9), (30, 20), (12, 5), (5, 17), (12, 17)):
        found = F.interpolate(image, size, mode=mode, antialias=antialias)
        expected = F.interpolate(image.float(), size, mode=mode, antialias=antialias)
        assert found.dtype is torch.uint8 and found.shape == (1, 2, *size)
        # rounded twice, and what bicubic gives beyond the range is cut off
        assert (found.float() - expected.clamp(0, 255)).abs().max() <= (1 if mode[3] == "i" else 40)
    half = F.interpolate(image, scale_factor=0.5, mode=mode, antialias=antialias)
    assert half.shape == (1, 2, 6, 8)
    flat = torch.full((1, 1, 4, 4), 200, dtype=torch.uint8)
    assert F.interpolate(flat, (7, 3), mode=mode, antialias=antialias).unique().tolist() == [200]


# ---- files


def test_records_of_files(tmp_path):
    x = torch.arange(6.0)
    torch.save({"x": x}, tmp_path / "x.pt")
    reader = torch.PyTorchFileReader(str(tmp_path / "x.pt"))
    assert {"data.pkl", "version", "data/0"} <= set(reader.get_all_records())
    assert reader.has_record("data/0") and not reader.has_record("data/1")
    assert reader.get_record("version") == b"3\n"
    assert torch.equal(reader.get_storage_from_record("data/0", 6, torch.float32), x)
    with pytest.raises(RuntimeError, match="24 bytes"):
        reader.get_storage_from_record("data/0", 5, torch.float32)
    with pytest.raises(RuntimeError, match="no entry"):
        reader.get_record("data/1")


def test_files_within_archives():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, archive.open("x.pt", "w") as entry:
        torch.save([torch.arange(3)], entry)
    with zipfile.ZipFile(stream) as archive:
        loaded = torch.load(io.BytesIO(archive.read("x.pt")))
    assert loaded[0].tolist() == [0, 1, 2]


# ---- devices and layouts to compare with


def test_devices_that_are_not_here():
    mps = torch.device("mps")
    assert mps.type == "mps" and mps.index is None and str(mps) == "mps"
    assert torch.device("xpu", 1) == torch.device("xpu:1") != torch.device("xpu")
    assert repr(torch.device("xpu:1")) == "device(type='xpu', index=1)"
    assert mps != torch.device("cpu") and not mps == torch.device("cuda")
    assert pickle.loads(pickle.dumps(mps)) == mps and len({mps, torch.device("mps")}) == 1
    for use in (lambda: torch.ones(1, device=mps), lambda: torch.ones(1).to(mps), mps.__enter__):
        with pytest.raises((RuntimeError, TypeError)):
            use()
    for text in ("nowhere", "mps:x", "", "mps:", "cpu:x"):
        with pytest.raises(RuntimeError):
            torch.device(text)
    assert torch.ones(1).layout != torch.sparse_csr and str(torch.sparse_csc) == "torch.sparse_csc"


# ---- small things


def test_numpy_without_gradients():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with torch.no_grad():
        assert x.numpy().tolist() == [1, 1] and np.asarray(x).tolist() == [1, 1]


def test_splits_by_name():
    x = torch.arange(8).reshape(2, 2, 2)
    for split, dim in ((torch.tensor_split, 0), (torch.hsplit, 1), (torch.dsplit, 2)):
        for part in (split(x, sections=2), split(x, indices=[1]), split(x, indices=(1,))):
            assert torch.equal(torch.cat(part, dim), x) and len(part) == 2


def test_signatures_of_modules():
    assert str(inspect.signature(nn.Linear(2, 2))) == "(*args, **kwargs)"
    assert list(inspect.signature(nn.Linear).parameters)[:2] == ["in_features", "out_features"]


def test_annotations():
    assert torch.futures.Future[torch.Tensor] and torch.Future is torch.futures.Future
    from rushlight.jit.annotations import BroadcastingList2

    assert BroadcastingList2[int] is None


def test_dispatch_keys_end_autocast():
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    assert torch._C.DispatchKey.AutocastCPU in keys and keys.has(torch._C.DispatchKey.AutocastCPU)
    assert (keys - keys) == torch._C.DispatchKeySet() and keys & keys == keys
    with torch.autocast("cpu"):
        with torch._C._ExcludeDispatchKeyGuard(keys):
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_enabled("cpu")
    with pytest.raises(AttributeError, match="nothing"):
        _ = torch._C.nothing


def test_marks_of_quantisation_change_nothing():
    x = torch.randn(2, 2)
    assert torch.ao.quantization.QuantStub()(x) is x
    assert torch.ao.quantization.DeQuantStub()(x) is x
    sums = nn.quantized.FloatFunctional()
    assert torch.equal(sums.add(x, 1), x + 1) and torch.equal(sums.add_relu(x, x), (x + x).relu())
    assert torch.equal(sums.cat([x, x], 1), torch.cat([x, x], 1)) and sums.mul(x, 2).shape == (2, 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs")
def test_nothing_is_scattered_to_gpus_that_are_not_there():
    from rushlight.nn.parallel import scatter

    with pytest.raises(AssertionError, match="CUDA is not available"):
        scatter(torch.ones(2), [0])


def test_asserting_on_tensors():
    torch._assert_async(torch.tensor(True), "fine")
    with pytest.raises(RuntimeError, match="wrong"):
        torch._assert_async(torch.tensor(0), "wrong")


def test_what_is_refused():
    from rushlight._subclasses.fake_tensor import FakeTensor, is_fake

    assert not is_fake(torch.ones(1))
    for refused in (lambda: FakeTensor(), lambda: torch.distributed.rpc.init_rpc("a")):
        with pytest.raises(NotImplementedError):
            refused()


def test_members_of_refused_classes_say_why():
    rpc = torch.distributed.rpc
    assert not hasattr(rpc.BackendType, "TENSORPIPE") and not hasattr(rpc.RRef, "_private")
    for ask in (
        lambda: rpc.BackendType.TENSORPIPE,
        lambda: rpc.TensorPipeRpcBackendOptions.num_worker_threads,
        lambda: torch.distributed.Reducer.prepare_for_forward,
    ):
        with pytest.raises(NotImplementedError, match=r"^distributed\..*\(its \w+\)$"):
            ask()
    with pytest.raises(NotImplementedError, match=r"init_from_module_rref: 3 at w0/cpu"):
        torch.distributed.nn.RemoteModule.init_from_module_rref("w0/cpu", 3)


def test_a_module_that_lacks_its_library_is_no_attribute(monkeypatch):
    monkeypatch.setitem(sys.modules, "rushlight.utils.tensorboard", None)
    monkeypatch.delattr(torch.utils, "tensorboard", raising=False)
    assert not hasattr(torch.utils, "tensorboard")
    assert torch.utils.data is not None


def test_modules_of_devices_by_name():
    from rushlight._utils import _get_device_module

    assert _get_device_module("cuda") is torch.cuda and _get_device_module("cpu") is torch.cpu
    with pytest.raises(RuntimeError, match="'gpu' has no module"):
        _get_device_module("gpu")


def test_a_policy_of_several():
    import functools

    from rushlight.distributed.fsdp import wrap

    small = functools.partial(wrap.lambda_auto_wrap_policy, lambda_fn=lambda m: m.in_features < 3)
    wide = functools.partial(wrap.lambda_auto_wrap_policy, lambda_fn=lambda m: m.in_features > 8)
    chosen = [
        wrap._or_policy(nn.Linear(n, 1), recurse=False, nonwrapped_numel=n, policies=[small, wide])
        for n in (2, 5, 9)
    ]
    assert chosen == [True, False, True]


def test_lengths_of_lists():
    pair, numbers = [torch.ones(2)] * 2, "same number of elements as scalar list"
    for args, message in [
        ((pair, [1.0]), numbers), ((pair, []), numbers), (([], []), "at least one tensor"),
        ((pair, pair[:1]), "same number of tensors, got 2 and 1"),
    ]:  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            torch._foreach_add(*args)
    with pytest.raises(RuntimeError, match="dimension 1. Got 2"):
        torch._foreach_addcmul(pair, pair, pair, torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="input of length 2 but got 3"):
        torch._foreach_addcdiv_(pair, pair, pair, torch.ones(3))


def test_numbers_of_reductions():
    from rushlight.nn import _reduction

    assert [_reduction.get_enum(r) for r in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.warns(UserWarning, match="elementwise_mean"):
        assert _reduction.get_enum("elementwise_mean") == 1
    with pytest.raises(ValueError, match="not a valid value"):
        _reduction.get_enum("max")
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert _reduction.legacy_get_enum(False, None) == 2
    assert _reduction.legacy_get_enum(None, False, emit_warning=False) == 0
    assert _reduction.legacy_get_string(None, None) == "mean"


def test_contexts_without_modes():
    from rushlight.utils._mode_utils import all_same_mode, no_dispatch
    from rushlight.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    with Log() as mode:
        for context in (no_dispatch(), torch._C._DisableTorchDispatch()):
            with context:
                torch.ones(2)
        with torch._C._DisableFuncTorch():
            torch.zeros(2)
    assert seen == ["aten.zeros.default"]
    assert all_same_mode([mode, mode]) and not all_same_mode([mode, Log()])

    def inside(x):
        with torch._C._DisableFuncTorch():
            return x

    for transform in (torch.vmap, torch.func.grad):
        with pytest.raises(NotImplementedError, match="inside of a transform"):
            transform(inside)(torch.ones(()) if transform is torch.func.grad else torch.ones(2))


def test_weak_dicts_after_others():
    from rushlight.utils.weak import WeakIdKeyDictionary

    keys = [torch.ones(2), torch.zeros(2)]
    united = {keys[0]: 1, keys[1]: 2} | WeakIdKeyDictionary({keys[0]: 3})
    assert type(united) is WeakIdKeyDictionary
    assert united[keys[0]] == 3 and united[keys[1]] == 2


def test_whether_autocast_is_there():
    assert torch.amp.is_autocast_available("cpu")
    with pytest.raises(RuntimeError, match="Invalid device string: 'no device'"):
        torch.amp.is_autocast_available("no device")


def test_functions_of_the_core_and_modules_by_others():
    assert torch._C._VariableFunctions.relu(torch.tensor(-1.0)) == 0
    from rushlight.functional import F as by_functional

    assert by_functional is F
    from rushlight._dynamo.utils import disable_cache_limit

    assert disable_cache_limit()(lambda: 3)() == 3
