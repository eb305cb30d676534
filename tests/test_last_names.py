"""Public names that few programs use: each works, or refuses by name."""

import pytest

import rushlight
from rushlight import nn

REFUSED = """
    ScriptClassFunction nn.functional.scaled_mm nn.functional.scaled_grouped_mm
    nn.attention.register_flash_attention_impl autograd.graph.region_activation_memory_budget
    autograd.graph.set_override_stale_capture_stream func.debug_unwrap
    sparse.SparseSemiStructuredTensor sparse.solve
    utils.checkpoint.GraphExecGroup jit.CompilationUnit compiler.load_compiled_function
    compiler.keep_tensor_guards_unsafe compiler.skip_all_guards_unsafe
    backends.cuda.cuFFTPlanCache
    backends.cuda.cublas_workspace_size onnx.ops
    cuda.CUDAPluggableAllocator cuda.MemPool cuda.use_mem_pool cuda.change_current_allocator
    cuda.caching_allocator_alloc cuda.GreenContext cuda.current_solver_handle cuda.jiterator
    cuda.get_stream_from_external cuda.sparse cuda.tunable
""".split()


def find(path):
    value = rushlight
    for part in path.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("path", REFUSED)
def test_what_is_refused_says_its_name_and_why(path):
    value = find(path)
    assert value.__doc__.startswith("Raises NotImplementedError: ")
    with pytest.raises(NotImplementedError, match=path.rpartition(".")[2] + ": .{10}"):
        value()


@pytest.mark.parametrize(
    "path",
    ["accelerator.Graph", "accelerator.get_device_capability", "accelerator.memory_allocated",
     "mps.load_metallib", "mps.profiler", "xpu.MemPool", "xpu.set_stream", "xpu.temperature",
     "xpu.graph"],
)  # fmt: skip
def test_what_needs_a_device(path):
    with pytest.raises((RuntimeError, AssertionError), match="built without|no accelerator"):
        find(path)()


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_finds_the_ends_of_the_spectrum(largest):
    rushlight.manual_seed(0)
    x = rushlight.randn(2, 20, 20, dtype=rushlight.float64)
    a, b = x @ x.mT, rushlight.eye(20, dtype=rushlight.float64) * 2
    values, vectors = rushlight.lobpcg(a, k=3, largest=largest, tol=1e-9)
    expected = rushlight.linalg.eigvalsh(a)
    expected = expected.flip(-1)[..., :3] if largest else expected[..., :3]
    rushlight.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)
    rushlight.testing.assert_close(a @ vectors, vectors * values.unsqueeze(1), rtol=1e-4, atol=1e-4)
    halves, _ = rushlight.lobpcg(a[0], 3, b, largest=largest, tol=1e-9)
    rushlight.testing.assert_close(halves, expected[0] / 2, rtol=1e-6, atol=1e-6)


def test_lobpcg_of_sparse_matrices_gradients_and_errors():
    a = rushlight.diag(rushlight.arange(1.0, 13.0)).double()
    steps = []
    values, _ = rushlight.lobpcg(a.to_sparse(), 2, tracker=lambda s: steps.append(s.niter))
    rushlight.testing.assert_close(
        values, rushlight.tensor([12.0, 11.0]).double(), rtol=1e-6, atol=0
    )
    assert steps == list(range(1, len(steps) + 1))
    a.requires_grad_()
    rushlight.lobpcg(a, 1)[0].sum().backward()
    assert a.grad[-1, -1].item() == pytest.approx(1)
    with pytest.raises(ValueError, match="lobpcg: a matrix of 12 rows is too small"):
        rushlight.lobpcg(a, 5)
    with pytest.raises(ValueError, match="lobpcg: expected method"):
        rushlight.lobpcg(a, 1, method="qr")


def test_rearrange():
    x = rushlight.arange(24).reshape(2, 3, 4)
    rearrange = rushlight.func.rearrange
    assert rushlight.equal(rearrange(x, "a b c -> c (b a)"), x.permute(2, 1, 0).reshape(4, 6))
    assert rushlight.equal(
        rearrange(x, "... (h w) -> h ... w", h=2).sum(0), x[..., :2] + x[..., 2:]
    )
    assert rearrange([x, x], "n a b c -> (n a) b 1 c").shape == (4, 3, 1, 4)
    for pattern, message in [("a b -> a b", "does not fit"), ("a b c -> a b", "not the same"),
                             ("a b (c d) -> a b c d", "give the sizes"), ("a b c", "two sides"),
                             ("a b c! -> a b c", "no name of a dim")]:  # fmt: skip
        with pytest.raises(ValueError, match=f"rearrange: .*{message}"):
            rearrange(x, pattern)


def test_grouped_products():
    a, b = rushlight.randn(5, 3), rushlight.randn(2, 3, 4)
    offs = rushlight.tensor([2, 5], dtype=rushlight.int32)
    grouped_mm = nn.functional.grouped_mm
    expected = rushlight.cat([a[:2] @ b[0], a[2:] @ b[1]])
    rushlight.testing.assert_close(grouped_mm(a, b, offs=offs), expected)
    rushlight.testing.assert_close(
        grouped_mm(a.T, rushlight.ones(5, 2), offs=offs),
        rushlight.stack([a[:2].T @ rushlight.ones(2, 2), a[2:].T @ rushlight.ones(3, 2)]),
    )
    wide = rushlight.randn(3, 5)
    rushlight.testing.assert_close(
        grouped_mm(b.mT.contiguous(), wide, offs=offs),
        rushlight.cat([b[0].T @ wide[:, :2], b[1].T @ wide[:, 2:]], 1),
    )
    assert grouped_mm(b.mT, b, bias=rushlight.ones(4), out_dtype=rushlight.float64).shape == (
        2,
        4,
        4,
    )
    with pytest.raises(ValueError, match="grouped_mm: offs is for matrices"):
        grouped_mm(a, b)
    with pytest.raises(ValueError, match="do not fit 2 groups of 5"):
        grouped_mm(a, b, offs=rushlight.tensor([2, 9], dtype=rushlight.int32))


def test_copies_of_modules_and_calls_of_several():
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    copies = nn.parallel.replicate(model, ["cpu", "cpu"])
    x = rushlight.ones(2, 2)
    results = nn.parallel.parallel_apply(copies, [x, (x,)])
    (results[0].sum() + results[1][0].sum() * 2).backward()
    assert model[0].weight.grad is not None
    assert nn.parallel.replicate(model, ["cpu"], detach=True)[0][0].weight.requires_grad is False
    with pytest.raises(ValueError, match="2 modules and 1 inputs"):
        nn.parallel.parallel_apply(copies, [x])
    with pytest.raises(RuntimeError):
        nn.parallel.parallel_apply(copies, [x, rushlight.ones(3)])


def test_an_optimizer_with_other_parameters_for_a_while():
    from rushlight.optim import swap_in_optimizer_params_and_state

    w, other = nn.Parameter(rushlight.ones(1)), nn.Parameter(rushlight.ones(1))
    optimizer = rushlight.optim.Adam([("w", w)], lr=0.1)
    w.grad = other.grad = rushlight.ones(1)
    optimizer.step()
    before = optimizer.state[w]["step"].item()
    with swap_in_optimizer_params_and_state(optimizer, {"w": other}, {}):
        optimizer.step()
    assert other.item() < 1 and optimizer.state[w]["step"].item() == before
    assert optimizer.param_groups[0]["params"][0] is w and other not in optimizer.state
    with pytest.raises(ValueError, match="no parameters of the optimizer"):
        with swap_in_optimizer_params_and_state(optimizer, {"v": other}, {}):
            pass
    plain = rushlight.optim.SGD([w], lr=0.1)
    with pytest.raises(ValueError, match="no names"):
        with swap_in_optimizer_params_and_state(plain, {}, {}):
            pass


def test_profilers_parts():
    from rushlight.autograd.profiler import EnforceUnique, KinetoStepTracker, MemRecordsAcc

    unique = EnforceUnique()
    unique.see("a", 1)
    with pytest.raises(RuntimeError, match="duplicate key"):
        unique.see("a", 1)
    start = KinetoStepTracker.current_step()
    KinetoStepTracker.init_step_count("loop")
    assert KinetoStepTracker.increment_step("loop") == start + 1 == KinetoStepTracker.current_step()
    assert KinetoStepTracker.erase_step_count("loop") and not KinetoStepTracker.erase_step_count(
        "x"
    )

    class Record:
        def __init__(self, start):
            self.start_ns = lambda: start

    records = [(Record(s), True) for s in (3000, 1000, 2000)]
    found = [r.start_ns() for r, _ in MemRecordsAcc(records).in_interval(1500, 3000)]
    assert found == [2000, 3000]
    assert rushlight.profiler.DeviceType.CUDA == 1


def test_steps_of_data_pipelines_that_are_checked():
    from rushlight.utils import data
    from rushlight.utils.data.datapipes.iter import IterableWrapper

    class Numbers(data.IterDataPipe):
        reinforced_type = int

        @data.argument_validation
        def __init__(self, source: data.IterDataPipe):
            self.source = source

        @data.runtime_validation
        def __iter__(self):
            yield from self.source

    assert list(Numbers(IterableWrapper([1, 2]))) == [1, 2]
    with pytest.raises(TypeError, match="expected source to be a IterDataPipe, got list"):
        Numbers([1])
    with pytest.raises(RuntimeError, match="expected elements of int, got str"):
        list(Numbers(IterableWrapper(["a"])))
    with data.runtime_validation_disabled():
        assert list(Numbers(IterableWrapper(["a"]))) == ["a"]

    @data.non_deterministic(lambda shuffle: shuffle)
    class Shuffled(data.IterDataPipe):
        def __init__(self, shuffle):
            self.shuffle = shuffle

    with data.guaranteed_datapipes_determinism():
        Shuffled(False)
        with pytest.raises(TypeError, match="Shuffled is non-deterministic"):
            Shuffled(True)


def test_functions_taken_over_in_tests():
    overrides = rushlight.overrides.get_testing_overrides()
    assert overrides[rushlight.add](1, 2) == -1 and len(overrides) > 500

    class Mine(rushlight.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func.__name__)
            return rushlight.overrides.redispatch_function(func, types, args, kwargs)

    x = rushlight.rand(1, 1, 4).as_subclass(Mine)
    nn.functional.interpolate(x, scale_factor=2)
    assert Mine.seen[0] == "interpolate" and len(Mine.seen) > 1
    with rushlight.overrides.enable_reentrant_dispatch():
        rushlight.exp(x)
    assert Mine.seen[-1] == "exp"


def test_settings_of_compilers_and_libraries():
    jit, compiler, cuda = rushlight.jit, rushlight.compiler, rushlight.backends.cuda
    before = jit.set_fusion_strategy([("STATIC", 1)])
    assert jit.set_fusion_strategy(before) == [("STATIC", 1)]
    with pytest.raises(ValueError, match="set_fusion_strategy"):
        jit.set_fusion_strategy([("NONE", 1)])
    jit.enable_onednn_fusion(False)
    with pytest.raises(NotImplementedError, match="enable_onednn_fusion"):
        jit.enable_onednn_fusion(True)
    with pytest.raises(NotImplementedError, match="strict_fusion"), jit.strict_fusion():
        pass
    traced = jit.trace(lambda x: x.exp() + 1, rushlight.ones(2))
    assert jit.export_opnames(traced) == ["aten::add", "aten::exp"]
    assert jit.Future is rushlight.futures.Future and not jit.onednn_fusion_enabled()
    compiler.set_default_backend("inductor")
    assert compiler.get_default_backend() == "inductor"
    compiler.set_default_backend(None)
    assert compiler.get_default_backend() == "eager"
    assert compiler.set_enable_guard_collectives(True) is False
    assert compiler.set_enable_guard_collectives(False) is True
    assert cuda.preferred_linalg_library("magma") == cuda.preferred_linalg_library() == "magma"
    cuda.preferred_linalg_library("default")
    with pytest.raises(RuntimeError, match="preferred_blas_library: unknown"):
        cuda.preferred_blas_library("mkl")
    with pytest.raises(ValueError, match="no kernel is registered as 'FA3'"):
        nn.attention.activate_flash_attention_impl("FA3")
    with pytest.raises(NotImplementedError, match="enforce_grad_layout_policy"):
        rushlight.autograd.enforce_grad_layout_policy(False)
    with pytest.raises(NotImplementedError, match="mkl.verbose"):
        rushlight.backends.mkl.verbose(1)


def test_the_processor():
    assert rushlight.cpu.get_capabilities()["num_logical_cores"] >= 1
    assert rushlight.cpu.is_initialized() and rushlight.cpu.Event().query()
    with rushlight.cpu.StreamContext(None):
        assert rushlight.thread_safe_generator() is None
    assert int(rushlight.utils.dlpack.DLDeviceType.kDLCUDA) == 2


class _Draws(rushlight.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        generator = rushlight.thread_safe_generator()
        return generator is not None and generator is not rushlight.default_generator


@pytest.mark.parametrize("kind", ["thread", None])
def test_generators_of_threads_that_load(kind):
    options = {"num_workers": 2, "worker_type": kind} if kind else {}
    found = [bool(b.all()) for b in rushlight.utils.data.DataLoader(_Draws(), **options)]
    assert found == [kind == "thread"] * 4


def test_lesser_names_of_cuda():
    cuda = rushlight.cuda
    assert not isinstance(rushlight.FloatStorage([1.0]), cuda.FloatStorage)
    assert cuda.get_allocator_backend() == "native" and cuda.host_memory_stats() == {}
    cuda.reset_peak_host_memory_stats()
    cuda.check_error(0)
    with pytest.raises(cuda.CudaError, match="CUDA error 600") as raised:
        cuda.check_error(cuda.cudaStatus.ERROR_NOT_READY)
    assert raised.value.code == 600
    assert cuda._initialized == cuda.is_initialized() and not cuda._is_in_bad_fork()
    assert cuda._utils._get_device_index("cuda:1") == cuda._get_device_index(1) == 1
    assert cuda._is_compiled() == rushlight.backends.cuda.is_built()
    with pytest.raises(AttributeError, match="no attribute 'subprocess'"):
        getattr(cuda, "subprocess")  # noqa: B009
    if not cuda.is_available():
        for call in (lambda: cuda.LongStorage([1]), cuda.temperature, cuda.list_gpu_processes,
                     cuda.device_memory_used):  # fmt: skip
            with pytest.raises((RuntimeError, AssertionError)):
                call()


def test_types_of_tensors():
    kind = rushlight.TensorType
    t = kind.create_from_tensor(rushlight.zeros(2, 3, dtype=rushlight.float64).t())
    assert (t.sizes(), t.strides(), t.dim(), t.dtype()) == ([3, 2], [1, 3], 2, rushlight.float64)
    assert t.device() == rushlight.device("cpu") and t.scalarType() == "Double"
    assert not t.requires_grad() and not t.undefined() and t.varyingSizes() == [3, 2]
    assert t.contiguous().strides() == [2, 1] and t.with_sizes([4]).strides() is None
    assert t.with_dtype(rushlight.int64).scalarType() == "Long"
    assert kind.get().with_device("meta").device() == rushlight.device("meta")
    any_tensor = kind.get()
    assert any_tensor.sizes() is None and any_tensor.dim() is None and any_tensor.requires_grad()
    assert t.isSubtypeOf(any_tensor) and not any_tensor.isSubtypeOf(t) and any_tensor == kind.get()
    assert (str(t), t.str(), t.annotation_str, t.kind()) == (*["Tensor"] * 3, "TensorType")
    assert t.containedTypes() == [] and not t.is_interface_type()
    with pytest.raises(RuntimeError, match="sizes are not known"):
        any_tensor.contiguous()
    device = rushlight.DeviceObjType.get()
    assert device.kind() == "DeviceObjType" and device.annotation_str == "Device"
    assert device.isSubtypeOf(device) and not device.isSubtypeOf(any_tensor)
    with pytest.raises(RuntimeError, match="DeviceObjType.sizes"):
        device.sizes()
    for made in (kind, rushlight.DeviceObjType):
        with pytest.raises(TypeError, match="No constructor defined"):
            made()


def test_dual_levels():
    from rushlight.autograd import forward_ad

    assert forward_ad._current_level == -1
    with forward_ad.dual_level().clone() as level:
        assert forward_ad._current_level == level == 0
    assert forward_ad._current_level == -1


def test_switches_of_older_warnings():
    from rushlight.utils import backcompat

    switch = backcompat.Warning("of_a_test")  # it warns once of a name
    assert switch.get_enabled() is switch.enabled is False
    with pytest.warns(UserWarning, match="backcompat.of_a_test"):
        switch.set_enabled(True)
    assert switch.enabled


def test_methods_of_data_parallel_are_replaced():
    class Doubling(nn.DataParallel):
        def scatter(self, inputs, kwargs, device_ids):
            return super().scatter((2 * inputs[0],), kwargs, device_ids)

        def gather(self, outputs, output_device):
            return super().gather(outputs, output_device) + 1

    model = Doubling(nn.Identity())
    x = rushlight.rand(4, 3)
    assert (model(x) == x).all()  # without a GPU the module is called as it is
    devices = [rushlight.device("cpu")] * 2
    model._devices = model.device_ids = devices
    model.output_device, model.dim = devices[0], 0
    assert (model(x) == 2 * x + 1).all()
    shared, named = nn.DataParallel.scatter(model, (x,), {"y": 1}, devices)
    assert [part.shape for (part,) in shared] == [(2, 3)] * 2 and named == ({"y": 1},) * 2
    copies = model.replicate(nn.Linear(3, 2), devices)
    outputs = model.parallel_apply(copies, shared, ({}, {}))
    assert nn.DataParallel.gather(model, outputs, "cpu").shape == (4, 2)


def test_steps_of_schedules_are_taken_back():
    optimizer = rushlight.optim.SGD([nn.Parameter(rushlight.ones(1))], lr=1.0)
    schedules = rushlight.optim.lr_scheduler
    parts = [schedules.ConstantLR(optimizer), schedules.ExponentialLR(optimizer, 0.5)]
    both = schedules.SequentialLR(optimizer, parts, [2])
    assert [part.last_epoch for part in parts] == [0, -1]
    both.recursive_undo()
    both.recursive_undo(parts[0])
    assert [part.last_epoch for part in parts] == [-2, -2]


def test_gradients_of_lobpcg_are_those_of_both_triangles():
    rushlight.manual_seed(0)
    a = rushlight.rand(6, 6, dtype=rushlight.float64)
    a = (a @ a.mT / 10).requires_grad_()
    assert rushlight.autograd.gradcheck(lambda a: rushlight.lobpcg(a, k=2)[0], a)
