"""Idioms of older programs, and answers for devices that are not there: all of them stay alive."""

import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight import _ignored, nn
from rushlight.nn import functional as F


def test_the_constructor_of_tensors():
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor(2, 3).dtype is torch.float32
    assert torch.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert torch.Tensor().shape == (0,) and torch.Tensor(torch.Size([2])).shape == (2,)
    assert torch.Tensor(np.array([1.0, 2.0], dtype=np.float32)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("FloatTensor", torch.float32), ("DoubleTensor", torch.float64), ("HalfTensor",
        torch.float16),
        ("BFloat16Tensor", torch.bfloat16), ("ByteTensor", torch.uint8), ("CharTensor", torch.int8),
        ("ShortTensor", torch.int16), ("IntTensor", torch.int32), ("LongTensor", torch.int64),
        ("BoolTensor", torch.bool),
    ],
)  # fmt: skip
def test_typed_tensors(name, dtype):
    kind = getattr(torch, name)
    made = kind([0, 1])
    assert made.dtype is dtype and made.tolist() == [0, 1]
    assert kind(2, 3).shape == (2, 3) and kind(torch.Size([2])).shape == (2,)
    assert isinstance(made, kind) and isinstance(made, torch.Tensor)
    assert not isinstance(made.to(torch.complex64), kind)
    assert made.type() == f"torch.{name}" and torch.typename(made) == f"torch.{name}"
    source = torch.tensor([1, 0])
    for target in (kind, name, f"torch.{name}", dtype):
        assert source.type(target).dtype is dtype
    assert not isinstance(made, getattr(torch.cuda, name))


def test_typed_tensors_from_arrays_and_lists_of_tensors():
    assert torch.LongTensor(np.array([3, 4])).tolist() == [3, 4]
    assert torch.FloatTensor(np.float32([[1, 2]])).shape == (1, 2)
    assert torch.FloatTensor(torch.ones(2)).tolist() == [1.0, 1.0]
    assert torch.LongTensor([[1], [2]]).shape == (2, 1)
    assert torch.LongTensor([np.int64(3), 4]).tolist() == [3, 4]
    assert torch.FloatTensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1.0, 2.0]


def test_typed_tensors_of_gpus():
    kind = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    assert kind is torch.FloatTensor
    assert torch.cuda.FloatTensor.__name__ == "FloatTensor"
    with pytest.raises(TypeError, match="torch.cuda.LongTensor not available"):
        torch.cuda.LongTensor([1])
    with pytest.raises(AssertionError, match="CUDA is not available"):
        torch.ones(1).type(torch.cuda.FloatTensor)
    with pytest.raises(AssertionError, match="CUDA is not available"):
        torch.ones(1).type("torch.cuda.FloatTensor")


def test_the_default_tensor_type():
    try:
        with pytest.warns(UserWarning, match="set_default_dtype"):
            torch.set_default_tensor_type("torch.DoubleTensor")
        assert torch.zeros(1).dtype is torch.float64 and torch.Tensor(1).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.zeros(1).dtype is torch.float32


def test_variables():
    x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    assert isinstance(x, torch.autograd.Variable) and isinstance(x, torch.Tensor)
    y = torch.autograd.Variable(x.data * 2)
    assert not y.requires_grad
    (x * y).sum().backward()
    assert x.grad.data.tolist() == [2.0, 2.0]
    x.data -= 0.5 * x.grad.data
    assert x.data.tolist() == [0.0, 0.0] and x.requires_grad
    x.data = torch.ones(3)
    assert x.shape == (3,)


def test_functions_that_moved():
    x = torch.linspace(-1, 1, 5)
    assert torch.equal(F.sigmoid(x), torch.sigmoid(x)) and torch.equal(F.tanh(x), torch.tanh(x))
    assert nn.Softmax(dim=0)(x).sum().item() == pytest.approx(1)
    with pytest.warns(UserWarning, match="softmax: choosing the dim implicitly"):
        assert F.softmax(x).shape == x.shape
    with pytest.warns(UserWarning, match="deprecated"):
        assert F.upsample(x.view(1, 1, 5), scale_factor=2).shape == (1, 1, 10)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert F.mse_loss(x, x * 0, size_average=False).item() == pytest.approx(2.5)
    with pytest.warns(FutureWarning):
        nn.utils.clip_grad_norm([nn.Parameter(x)], 1.0)
    with pytest.warns(FutureWarning):
        nn.init.xavier_uniform(torch.empty(2, 2))


def test_gradients_are_clipped_by_their_norm_together():
    p, q = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
    for bound, share in ((14.0, 1.0), (6.5, 0.5), (float("inf"), 1.0)):
        p.grad, q.grad = torch.tensor([3.0, 4.0]), torch.tensor([12.0])
        assert nn.utils.clip_grad_norm_([p, q], bound) == 13
        found = torch.cat([p.grad, q.grad]).tolist()
        assert found == pytest.approx([3 * share, 4 * share, 12 * share])
    p.grad[0] = float("nan")
    assert nn.utils.clip_grad_norm_([p, q], 1.0).isnan()
    assert p.grad.isnan().all() and q.grad.isnan().all()


def test_averages_of_a_model():
    model = nn.Linear(2, 2, bias=False)
    swa = torch.optim.swa_utils
    means = [swa.AveragedModel(model), swa.AveragedModel(model, avg_fn=swa.get_swa_avg_fn())]
    decayed = [swa.AveragedModel(model, avg_fn=swa.get_ema_avg_fn(0.75)),
               swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.75))]  # fmt: skip
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, value)
        for average in means + decayed:
            average.update_parameters(model)
    for averages, expected in ((means, 3.0), (decayed, 0.75 * 1.25 + 1.5)):
        for average in averages:
            assert average.module.weight.tolist() == [[pytest.approx(expected)] * 2] * 2


def test_assigning_through_masks_and_ranges():
    x = torch.arange(6.0)
    x[x > 3] = -1
    assert x.tolist() == [0, 1, 2, 3, -1, -1]
    x[range(2)] = 9
    assert x.tolist()[:2] == [9, 9] and x[range(1, 3)].tolist() == [9, 2]
    x[torch.ByteTensor([1, 0, 0, 0, 0, 0]).bool()] = 5
    assert x[0] == 5
    x[[0, 2]] = torch.tensor([7.0, 8.0])
    x[np.array([1])] = 4
    assert x.tolist()[:3] == [7, 4, 8]
    grid = torch.zeros(3, 3)
    grid[range(3), range(3)] = 1
    assert torch.equal(grid, torch.eye(3))


def test_numbers_in_strings():
    n, x = torch.tensor(3), torch.tensor(0.5)
    assert "%d %.2f %s" % (n, x, n) == "3 0.50 tensor(3)"  # noqa: UP031
    assert "%d" % n == "3" and f"{x:.3f}" == "0.500" and f"{n:4d}" == "   3"  # noqa: UP031
    assert "{:.1f}".format(x) == "0.5" and "{}".format(n) == "3"  # noqa: UP032
    assert int(n) == 3 and float(x) == 0.5 and round(x.item()) == 0
    assert [10, 20, 30, 40][n] == 40 and list(range(n)) == [0, 1, 2] and [0] * n == [0, 0, 0]


def test_arrays():
    x = torch.arange(4.0).view(2, 2)
    assert np.array(x).shape == (2, 2) and np.asarray(x).dtype == np.float32
    assert np.mean(x.numpy()) == 1.5 and np.sum(np.array(x)) == 6
    assert np.array([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert (torch.from_numpy(np.eye(2)) == torch.eye(2, dtype=torch.float64)).all()
    assert isinstance(np.float32(2) * x, torch.Tensor) and isinstance(
        x * np.float32(2), torch.Tensor
    )
    assert np.max(x.numpy()) == 3 and np.sqrt(x).shape == (2, 2)


def test_old_import_paths():
    import rushlight.nn.modules.activation
    import rushlight.nn.modules.loss  # noqa: F401
    from rushlight.autograd import Variable
    from rushlight.nn.modules.batchnorm import _BatchNorm
    from rushlight.nn.modules.conv import _ConvNd
    from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
    from rushlight.nn.modules.module import Module
    from rushlight.nn.modules.utils import _pair
    from rushlight.nn.parameter import Buffer, Parameter
    from rushlight.optim.lr_scheduler import _LRScheduler
    from rushlight.optim.optimizer import Optimizer, required
    from rushlight.utils.data.dataloader import default_collate
    from rushlight.utils.data.dataset import Dataset
    from rushlight.utils.data.sampler import SubsetRandomSampler
    from rushlight.utils.model_zoo import load_url

    assert issubclass(nn.BatchNorm2d, _BatchNorm) and issubclass(nn.Conv2d, _ConvNd)
    assert Module is nn.Module and Parameter is nn.Parameter and Buffer is nn.Buffer
    assert _pair(3) == (3, 3) and issubclass(torch.optim.SGD, Optimizer)
    assert issubclass(NonDynamicallyQuantizableLinear, nn.Linear)
    assert all(
        (Variable, _LRScheduler, Dataset, SubsetRandomSampler, default_collate, load_url, required)
    )


def test_buffers():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = nn.Buffer(torch.zeros(1))
            self.scratch = nn.Buffer(torch.zeros(1), persistent=False)

    counter = Counter()
    assert list(counter.state_dict()) == ["count"]
    assert [name for name, _ in counter.named_buffers()] == ["count", "scratch"]


def test_old_method_names():
    x = torch.arange(6.0).view(2, 3)
    assert x.ndimension() == 2 and x.nelement() == 6 and x.is_floating_point()
    assert x.type_as(torch.ones(1).long()).dtype is torch.int64
    assert x.new(2).shape == (2,) and x.new([1, 2]).tolist() == [1, 2]
    assert x.new_tensor([1]).dtype is x.dtype and x.clamp_min(2).min() == 2
    assert x.resize_(3, 2).shape == (3, 2) and x.storage().size() == 6


def test_old_ways_of_training():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    criterion = nn.MSELoss()
    for _ in range(2):
        x = torch.autograd.Variable(torch.FloatTensor(4, 2).uniform_())
        optimizer.zero_grad()
        loss = criterion(model(x), torch.autograd.Variable(torch.zeros(4, 2)))
        loss.backward()
        optimizer.step()
        scheduler.step()
        assert loss.data.item() > 0
    assert scheduler.get_last_lr()[0] == pytest.approx(0.001)


def test_gpus_that_are_not_there():
    cuda = torch.cuda
    device = torch.device("cuda" if cuda.is_available() else "cpu")
    assert device.type == "cpu" and cuda.device_count() == 0 and not cuda.is_bf16_supported()
    assert cuda.memory_allocated() == cuda.max_memory_allocated() == cuda.memory_reserved() == 0
    cuda.manual_seed(0), cuda.manual_seed_all(0), cuda.empty_cache(), cuda.reset_peak_memory_stats()
    assert cuda.get_rng_state_all() == [] and cuda.get_arch_list() == []
    cuda.set_device(-1)
    with cuda.device(None), cuda.device(-1), cuda.stream(None), cuda.device_of(torch.ones(1)):
        pass
    for call in (
        cuda.synchronize, cuda.current_device, cuda.get_device_name,
        lambda: cuda.set_device(0), lambda: cuda.get_device_properties(0),
        lambda: cuda.device(0).__enter__(),
        cuda.mem_get_info, cuda.get_device_capability, cuda.current_stream,
        lambda: torch.ones(1).cuda(), lambda: nn.Linear(1, 1).cuda(),
        lambda: torch.ones(1).to("cuda:0"), lambda: torch.ones(1, device="cuda"),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="CUDA is not available"):
            call()
    with pytest.raises(AssertionError, match="CUDA is not available"):
        cuda.Stream()
    assert not torch.ones(1).is_cuda and torch.ones(1).get_device() == -1


def test_other_devices_that_are_not_there():
    assert not torch.backends.mps.is_available() and not torch.xpu.is_available()
    assert not torch.mtia.is_available() and torch.mps.device_count() == 0
    assert not torch.accelerator.is_available() and torch.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="mps.synchronize"):
        torch.mps.synchronize()
    with pytest.raises(AssertionError, match="xpu.synchronize"):
        torch.xpu.synchronize()
    with pytest.raises(RuntimeError, match="accelerator.synchronize"):
        torch.accelerator.synchronize()
    assert torch.get_device_module() is torch.cpu and torch.get_device_module("cuda") is torch.cuda


def test_flags_can_be_assigned():
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = (
        cudnn.benchmark,
        cudnn.deterministic,
        cudnn.enabled,
        cudnn.allow_tf32,
        matmul.allow_tf32,
    )
    cudnn.benchmark = cudnn.deterministic = cudnn.enabled = cudnn.allow_tf32 = matmul.allow_tf32 = (
        True
    )
    assert cudnn.benchmark and matmul.allow_tf32
    with cudnn.flags(enabled=False):
        assert not cudnn.enabled
    cudnn.benchmark, cudnn.deterministic, cudnn.enabled, cudnn.allow_tf32, matmul.allow_tf32 = (
        before
    )
    with torch.backends.mkldnn.flags(enabled=False):
        assert not torch.backends.mkldnn.enabled
    assert not torch.backends.mkl.is_available() and not torch.backends.openmp.is_available()


def test_device_contexts_and_defaults():
    with torch.device("meta"):
        layer = nn.Linear(2, 3)
        assert torch.zeros(2).is_meta and torch.get_default_device().type == "meta"
        assert torch.ones(1, device="cpu").device.type == "cpu"
    assert layer.weight.is_meta and not torch.zeros(1).is_meta
    assert layer.to_empty(device="cpu").weight.shape == (3, 2)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(1).dtype is torch.float64 and torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_compilers_pass_through():
    model = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    assert torch.equal(torch.compile(model)(x), model(x))

    @torch.compile(disable=True, fullgraph=True, dynamic=False)
    def double(x):
        return x * 2

    @torch.compiler.disable
    def triple(x):
        return x * 3

    @torch.jit.script_if_tracing
    def quadruple(x):
        return x * 4

    assert double(1) + triple(1) + quadruple(1) == 9
    assert (
        not torch.compiler.is_compiling()
        and not torch.jit.is_scripting()
        and not torch.jit.is_tracing()
    )
    torch._dynamo.config.suppress_errors = True
    torch._dynamo.reset()
    from rushlight._dynamo import _trace_wrapped_higher_order_op

    table = torch.tensor([3, 1, 2])
    with _trace_wrapped_higher_order_op.TransformGetItemToIndex():
        assert torch.vmap(lambda i: table[i])(torch.tensor([2, 0])).tolist() == [2, 3]
    assert torch._C._get_tracing_state() is None


def test_compilers_take_what_can_be_called():
    for compile in (torch.compile, torch.compile(), torch.compile(disable=True)):
        with pytest.raises(AssertionError, match="expected a function or module, got int"):
            compile(3)


def test_what_would_choose_how_to_compile_is_checked_and_told_of(monkeypatch):
    monkeypatch.setattr(_ignored, "_warned", set())
    for name, value in {
        "fullgraph": True, "dynamic": True, "backend": len, "mode": "max-autotune", "name": "n",
        "options": {"trace.enabled": True}, "recompile_limit": 3, "isolate_recompiles": True,
        "shapes_spec": 1,
    }.items():  # fmt: skip
        with pytest.warns(UserWarning, match=f"compile: {name} has no effect: operations run as"):
            assert torch.compile(len, **{name: value}) is len
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.compile(len, **{name: value})([1]) == 1  # told of once
    _ignored._warned.clear()
    with pytest.warns(UserWarning, match="compile: mode has no effect"):
        nn.Linear(2, 2).compile(mode="reduce-overhead")
    with pytest.raises(TypeError, match="foo"):
        torch.compile(len, foo=1)
    with pytest.raises(TypeError, match="foo"):
        nn.Linear(2, 2).compile(foo=1)
    with pytest.raises(RuntimeError, match="mode='fast', expected one of default"):
        torch.compile(len, mode="fast")
    with pytest.raises(RuntimeError, match="both are given"):
        torch.compile(len, mode="default", options={})


def test_what_is_refused_says_so():
    with pytest.raises(NotImplementedError, match="C\\+\\+ interface"):
        torch.utils.cpp_extension.load_inline("x", "#include <torch/extension.h>", functions=["f"])
    with pytest.raises(NotImplementedError, match="nested: svd"):
        torch.nested.nested_tensor([torch.ones(1)]).svd()
    with pytest.raises((ValueError, RuntimeError, NotImplementedError), match="source"):
        torch.hub.load("pytorch/vision", "resnet18")


def test_a_world_of_one_process(monkeypatch):
    distributed = torch.distributed
    for name in ("WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    assert distributed.is_available() and not distributed.is_initialized()
    with pytest.raises(ValueError, match="has not been initialized"):
        distributed.get_rank()
    with pytest.raises(ValueError, match="has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="MASTER_ADDR expected"):
        distributed.init_process_group("gloo", rank=0, world_size=4)
    distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        x = torch.ones(2)
        assert distributed.get_rank() == 0 and distributed.get_world_size() == 1
        assert distributed.all_reduce(x, op=distributed.ReduceOp.SUM) is None
        assert distributed.all_reduce(x, async_op=True).wait() and x.tolist() == [1, 1]
        gathered = [torch.zeros(2)]
        distributed.all_gather(gathered, x)
        distributed.broadcast(x, src=0)
        distributed.barrier()
        assert gathered[0].tolist() == [1, 1]
        with pytest.raises(ValueError, match="rank 1 is not in a world of 1"):
            distributed.broadcast(x, src=1)
        with pytest.raises(ValueError, match="no other process"):
            distributed.send(x, 1)
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        model(x).backward()
        assert list(model.state_dict()) == ["module.weight", "module.bias"]
        assert model.module.weight.grad is not None
        sampler = torch.utils.data.distributed.DistributedSampler(range(4), shuffle=False)
        assert list(sampler) == [0, 1, 2, 3]
    finally:
        distributed.destroy_process_group()
    assert not distributed.is_initialized()


def test_the_version_says_what_programs_ask():
    assert torch.version.cuda is None and torch.version.hip is None
    assert torch.version.__version__ == torch.__version__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    assert (major, minor) >= (0, 1)


def test_dtypes_that_are_not_there_can_be_compared():
    x = torch.ones(2)
    assert x.dtype != torch.float8_e4m3fn and torch.uint16.itemsize == 2
    assert str(torch.float8_e5m2) == "torch.float8_e5m2" and torch.complex32 is torch.chalf
    limits = torch.finfo(torch.float8_e4m3fn)
    assert (limits.max, limits.eps, limits.bits) == (448.0, 0.125, 8)
    for use in (lambda: x.to(torch.uint4), lambda: torch.zeros(1, dtype=torch.bits8)):
        with pytest.raises(TypeError, match="must be torch.dtype"):
            use()


def test_old_names_of_sparse_tensors():
    indices = torch.LongTensor([[0, 1], [1, 0]])
    made = torch.sparse.FloatTensor(indices, torch.FloatTensor([3, 4]), torch.Size([2, 2]))
    assert made.to_dense().tolist() == [[0.0, 3.0], [4.0, 0.0]] and made.dtype is torch.float32
    assert torch.sparse.DoubleTensor(indices, torch.ones(2)).dtype is torch.float64


def test_deterministic_algorithms_leave_no_memory_unwritten():
    settings = torch.utils.deterministic
    makers = (
        lambda d: torch.empty(3, dtype=d),
        lambda d: torch.empty_like(torch.ones(3, dtype=d)),
        lambda d: torch.ones(1, dtype=d).new_empty(3),
        lambda d: torch.empty_strided((3,), (2,), dtype=d),
    )  # fmt: skip
    torch.use_deterministic_algorithms(True)
    try:
        for make in makers:
            assert make(torch.float32).isnan().all() and make(torch.complex64).real.isnan().all()
            assert make(torch.bool).all() and make(torch.uint8).tolist() == [255] * 3
            assert make(torch.int64).tolist() == [2**63 - 1] * 3
        settings.fill_uninitialized_memory = False
        assert not settings.fill_uninitialized_memory
        kept = torch.full((3,), 2.0)
        assert torch.empty_like(kept).shape == (3,) and kept.tolist() == [2, 2, 2]
    finally:
        settings.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)
    with pytest.raises(TypeError, match="must be bool"):
        torch.use_deterministic_algorithms(1)
