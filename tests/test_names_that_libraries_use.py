"""Names that libraries import from torch, private ones too: each does what they use it for."""

import collections
import io
import warnings

import pytest
from test_alias import as_program

import rushlight
from rushlight import monitor, nn
from rushlight.autograd import Variable
from rushlight.nn import functional as F
from rushlight.utils import collect_env
from rushlight.utils._device import DeviceContext, set_device
from rushlight.utils._ordered_set import OrderedSet


class Named(rushlight.Tensor):
    """A subclass that files can name."""


ENGINE = Variable._execution_engine


# ---- the engine


@pytest.mark.parametrize("create_graph", [False, True])
def test_callbacks_run_when_backward_has_ended(create_graph):
    x = rushlight.ones(3, requires_grad=True)
    seen = []

    def last():
        seen.append(("last", x.grad.tolist(), rushlight.is_grad_enabled()))

    def first():
        seen.append("first")
        ENGINE.queue_callback(last)

    x.register_hook(lambda grad: ENGINE.queue_callback(first))
    (2 * x).sum().backward(create_graph=create_graph)
    assert seen == ["first", ("last", [2.0] * 3, create_graph)]
    x.grad = None


def test_callbacks_of_an_inner_pass_run_at_its_end():
    seen = []

    def inner(grad):
        y = rushlight.ones(1, requires_grad=True)
        y.register_hook(lambda grad: ENGINE.queue_callback(lambda: seen.append("inner")))
        with rushlight.enable_grad():
            (y * 2).backward()
        seen.append("after it")

    x = rushlight.ones(3, requires_grad=True)
    x.register_hook(lambda grad: ENGINE.queue_callback(lambda: seen.append("outer")))
    x.register_hook(inner)
    x.sum().backward()
    assert seen == ["inner", "after it", "outer"]


def test_a_callback_may_run_backward():
    x, y = rushlight.ones(2, requires_grad=True), rushlight.ones(2, requires_grad=True)

    def more():
        with rushlight.enable_grad():
            (3 * y).sum().backward()

    x.register_hook(lambda grad: ENGINE.queue_callback(more))
    x.sum().backward()
    assert y.grad.tolist() == [3, 3]


def test_an_error_of_a_callback_is_that_of_backward():
    def fails():
        raise ValueError("at the end")

    x = rushlight.ones(2, requires_grad=True)
    x.register_hook(lambda grad: ENGINE.queue_callback(fails))
    with pytest.raises(ValueError, match="at the end"):
        x.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_callbacks_do_not_run_after_an_error():
    seen = []

    def stops(grad):
        ENGINE.queue_callback(lambda: seen.append("ran"))
        raise ValueError("in the middle")

    x = rushlight.ones(2, requires_grad=True)
    x.register_hook(stops)
    with pytest.raises(ValueError, match="in the middle"):
        x.sum().backward()
    assert not seen


def test_callbacks_need_a_backward_pass():
    with pytest.raises(RuntimeError, match="during backward pass"):
        ENGINE.queue_callback(print)
    with pytest.raises(TypeError, match="expected a function"):
        ENGINE.queue_callback(3)


def test_the_pass_that_runs_says_its_node_and_number():
    assert rushlight._C._current_autograd_node() is None
    assert rushlight._C._current_graph_task_id() == -1
    seen = []

    class Twice(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            node = rushlight._C._current_autograd_node()
            seen.append((node.name(), rushlight._C._current_graph_task_id() >= 0))
            return 2 * grad

    Twice.apply(rushlight.ones(2, requires_grad=True)).sum().backward()
    assert seen == [("TwiceBackward", True)]


def test_run_backward_takes_what_torch_gives_it():
    x = rushlight.ones(3, requires_grad=True)
    y = (x**2).sum()
    (grad,) = ENGINE.run_backward(
        (y,), (rushlight.tensor(3.0),), False, False, (x,), allow_unreachable=True,
        accumulate_grad=False,
    )  # fmt: skip
    assert grad.tolist() == [6, 6, 6] and x.grad is None


def test_profiles_are_known_and_ended():
    enabled, disable = rushlight.autograd._profiler_enabled, rushlight.autograd._disable_profiler
    assert not enabled()
    with rushlight.profiler.profile() as prof:
        assert enabled()
        rushlight.ones(3).exp()
        recording = disable()
        assert not enabled()
    assert "exp" in " ".join(event.name for event in recording.events())
    assert prof.recording is recording
    with pytest.raises(RuntimeError, match="not running"):
        disable()


# ---- modules as attributes


def test_packages_have_their_modules_without_an_import(tmp_path):
    source = """
import torch
assert torch.torch is torch
from torch import torch as again
assert again is torch
f = torch.fx.experimental.proxy_tensor.make_fx(lambda x: x + 1)(torch.ones(2))
assert f(torch.ones(3)).tolist() == [2, 2, 2]
assert torch.nn.common_types._size_2_t and torch.fx.passes.split_module.split_module
assert torch.monitor.Aggregation.SUM == 4 and torch.quantization.observer.MinMaxObserver
assert torch.profiler.profiler._default_schedule_fn(3) is torch.profiler.ProfilerAction.RECORD
assert not hasattr(torch.fx, "nothing") and not hasattr(torch, "_C2")
try:
    torch.fx.nothing
except AttributeError as error:
    assert "module 'torch.fx' has no attribute 'nothing'" in str(error)
print("passed")
"""
    assert as_program(tmp_path, source)[0] == "passed\n"


def test_names_in_private_places():
    from rushlight.nn.attention.flex_attention import _DEFAULT_SPARSE_BLOCK_SIZE, create_block_mask

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 300, 300, device="cpu")
    assert mask.BLOCK_SIZE == (_DEFAULT_SPARSE_BLOCK_SIZE,) * 2 == (128, 128)


# ---- contexts, sets and functions


def test_the_default_device_as_a_context():
    with DeviceContext("meta") as context:
        assert rushlight.ones(2).is_meta and context.device.type == "meta"
    assert not rushlight.ones(2).is_meta
    assert set_device("meta")(lambda: rushlight.ones(2))().is_meta
    assert rushlight.utils._device.CURRENT_DEVICE == rushlight.device("cpu")


@pytest.mark.parametrize(
    "make",
    [
        lambda: rushlight.empty_permuted((2, 3), (1, 0)),
        lambda: rushlight.fft.fftfreq(4),
        lambda: rushlight.fft.rfftfreq(4),
        lambda: rushlight.signal.windows.hann(4),
        lambda: rushlight.hann_window(4),
    ],
)
def test_factories_that_no_list_had_follow_the_default_device(make):
    with rushlight.device("meta"):
        assert make().is_meta
    rushlight.set_default_device("meta")
    try:
        assert make().is_meta
        # The type of a device by name.
        assert rushlight.FloatTensor(2).device.type == "cpu"
    finally:
        rushlight.set_default_device(None)
    assert not make().is_meta


def test_kinds_of_dtypes():
    from rushlight import _prims_common as kinds

    names = "bool int32 float16 complex64".split()
    dtypes = [getattr(rushlight, name) for name in names]
    assert [kinds.dtype_to_type(d) for d in dtypes] == [bool, int, float, complex]
    for place, name in enumerate(("boolean", "integer", "float", "complex")):
        is_of_kind = getattr(kinds, f"is_{name}_dtype")
        assert [is_of_kind(d) for d in dtypes] == [i == place for i in range(4)]
    assert kinds.corresponding_real_dtype(rushlight.complex128) is rushlight.float64
    assert kinds.corresponding_complex_dtype(rushlight.float32) is rushlight.complex64


def test_programs_of_functorch_on_trial():
    from rushlight.functorch.experimental import control_flow, vmap

    assert vmap is rushlight.vmap
    x = rushlight.arange(3.0)
    assert control_flow.map(lambda row: row * 2, x).tolist() == [0, 2, 4]
    assert control_flow.cond(True, lambda v: v + 1, lambda v: v, (x,)).tolist() == [1, 2, 3]


def test_ordered_set():
    a = OrderedSet([3, 1, 2, 1])
    a.add(0)
    a.discard(3)
    a.discard(7)
    assert list(a) == [1, 2, 0] and list(reversed(a)) == [0, 2, 1] and len(a) == 3
    assert repr(a) == "OrderedSet([1, 2, 0])" and a == {0, 1, 2}
    assert list(a | [9]) == [1, 2, 0, 9] and list(a - OrderedSet([2])) == [1, 0]
    assert list(a.union([5], [4])) == [1, 2, 0, 5, 4]
    assert list(a.intersection([0, 1], [1, 2])) == [1]
    assert list(a.difference([0], [1])) == [2]
    assert list(a.symmetric_difference([0, 8])) == [1, 2, 8]
    assert a.issubset([0, 1, 2, 3]) and a.issuperset([1]) and not a.issuperset([4])
    a.difference_update([1], [2])
    a.update([6], [0])
    assert list(a) == [0, 6] and list(a.copy()) == [0, 6]


def test_functions_of_layers_by_the_names_of_operations():
    functions = rushlight._C._nn
    x = rushlight.arange(16.0).view(1, 1, 4, 4)
    for name, given, options in (
        ("upsample_bilinear2d", ([2, 2], False), {"size": [2, 2], "align_corners": False}),
        (
            "upsample_bilinear2d", (None, True, [2.0, 2.0]),
            {"scale_factor": [2.0, 2.0], "align_corners": True},
        ),
        ("upsample_bicubic2d", ([3, 3], True), {"size": [3, 3], "align_corners": True}),
    ):  # fmt: skip
        mode = name.removeprefix("upsample_").removesuffix("2d")
        expected = F.interpolate(x, mode=mode, **options)
        assert getattr(functions, name)(x, *given).equal(expected)
    assert functions.upsample_nearest2d(x, [8, 8]).equal(F.interpolate(x, [8, 8]))
    assert functions.upsample_nearest2d(x, None, [2.0, 2.0]).equal(F.interpolate(x, scale_factor=2))
    assert functions.avg_pool2d(x, 2).equal(F.avg_pool2d(x, 2))
    flat = functions.flatten_dense_tensors([x, x])
    assert [t.shape for t in functions.unflatten_dense_tensors(flat, [x, x])] == [x.shape] * 2


@pytest.mark.parametrize("name, dtype", [("Long", rushlight.int64), ("Half", rushlight.float16)])
def test_casts(name, dtype):
    made = getattr(rushlight, f"_cast_{name}")(rushlight.tensor([2.5]))
    assert made.dtype is dtype and made.item() == (2 if name == "Long" else 2.5)


def test_facts_about_the_machine():
    assert collect_env.run("echo a; exit 3") == (3, "a", "")
    assert collect_env.run(["no-such-program"])[0] == 127
    answers = {"gcc --version": (0, "gcc (X 1) 12.2.0\nmore", ""), "nvidia-smi -L": (1, "", "no")}
    known = answers.get
    assert collect_env.get_gcc_version(known) == "(X 1) 12.2.0"
    assert collect_env.get_gpu_info(known) is None
    assert collect_env.get_clang_version(lambda command: (127, "", "")) is None
    assert collect_env.get_cpu_info(lambda command: (127, "", ""))
    cpu = rushlight.cpu
    has = cpu.get_capabilities()
    assert cpu._is_avx2_supported() == has.get("avx2", False)
    assert cpu._is_amx_tile_supported() == has.get("amx_tile", False)


def test_enumerations_of_torch_in_cpp_show_their_names():
    for value, text, number in (
        (nn.attention.SDPBackend.MATH, "SDPBackend.MATH", 0),
        (monitor.Aggregation.SUM, "Aggregation.SUM", 4),
        (rushlight.autograd.DeviceType.CPU, "DeviceType.CPU", 0),
        (F.ScalingType.RowWise, "ScalingType.RowWise", 1),
        (rushlight.onnx.TrainingMode.TRAINING, "TrainingMode.TRAINING", 2),
    ):
        assert (str(value), f"{value}", repr(value)) == (text, text, f"<{text}: {number}>")
        assert int(value) == number


def test_what_refuses_says_why():
    with pytest.raises(NotImplementedError, match="no graph is made"):
        rushlight._dynamo.explain(lambda x: x)
    with pytest.raises(NotImplementedError, match="give a folder"):
        rushlight.hub._validate_not_a_forked_repo("a", "b", "main")


def test_symbolics_of_onnx_are_warned_of_where_an_export_meets_them():
    """Not where a library registers them, which is when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("aten::relu", "mine::op"):
            rushlight.onnx.register_custom_op_symbolic(name, print, 18)
    program = rushlight.export.export(rushlight.nn.ReLU(), (rushlight.ones(2),))
    with pytest.warns(UserWarning, match="aten::relu: what register_custom_op_symbolic"):
        rushlight.onnx._warn_of_symbolics(program)
    for name in ("aten::relu", "mine::op"):
        rushlight.onnx.unregister_custom_op_symbolic(name, 18)
    assert not rushlight.onnx._symbolics


# ---- data


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "inside" / "c.csv").write_text("1,2")
    return tmp_path


def test_files_are_listed(folder):
    from rushlight.utils.data.datapipes.iter import FileLister, IterableWrapper

    def names(*args, **options):
        return [path.removeprefix(f"{folder}/") for path in FileLister(*args, **options)]

    root = str(folder)
    assert names(root) == ["a.txt", "b.txt"]
    assert names(root, recursive=True) == ["a.txt", "b.txt", "inside/c.csv"]
    assert names([root, f"{root}/inside"], masks=["a*", "*.csv"]) == ["a.txt", "inside/c.csv"]
    assert sorted(names(root, non_deterministic=True)) == ["a.txt", "b.txt"]
    assert list(IterableWrapper([root]).list_files("b*")) == [f"{root}/b.txt"]
    assert len(FileLister(root, length=2)) == 2
    with pytest.raises(TypeError, match="valid length"):
        len(FileLister(root))
    with pytest.raises(FileNotFoundError):
        list(FileLister(f"{root}/nothing"))


def test_absolute_paths(folder, monkeypatch):
    from rushlight.utils.data.datapipes.iter import FileLister

    monkeypatch.chdir(folder)
    assert list(FileLister()) == ["./a.txt", "./b.txt"]
    assert list(FileLister(abspath=True)) == [f"{folder}/a.txt", f"{folder}/b.txt"]


def test_files_are_opened_and_read(folder):
    from rushlight.utils.data.datapipes.iter import FileLister, FileOpener, StreamReader

    paths = FileLister(str(folder))
    texts = [(path[-5:], file.read()) for path, file in FileOpener(paths)]
    assert texts == [("a.txt", "first"), ("b.txt", "second")]
    assert [file.read() for _, file in paths.open_files("b")] == [b"first", b"second"]
    opened = FileOpener(paths, mode="rt", encoding="utf-8", length=2)
    assert len(opened) == 2
    assert [text for _, text in StreamReader(opened)] == ["first", "second"]
    assert [text for _, text in opened.read_from_stream(4)] == ["firs", "t", "seco", "nd"]
    with pytest.raises(ValueError, match="mode='w'"):
        FileOpener(paths, mode="w")
    with pytest.raises(ValueError, match="no encoding"):
        FileOpener(paths, mode="rb", encoding="utf-8")
    with pytest.raises(TypeError, match="expected a path, got int"):
        list(FileOpener([3]))


def test_a_worker_knows_itself_by_the_older_name():
    from rushlight.utils.data._utils import worker

    assert worker._worker_info is None


def test_rebuilt_subclasses_have_their_attributes():
    made = rushlight._tensor._rebuild_from_type_v2(rushlight.ones, Named, (2,), {"name_": "x"})
    assert type(made) is Named and made.name_ == "x"
    file = io.BytesIO()
    rushlight.save(made, file)
    file.seek(0)
    assert rushlight.load(file, weights_only=False).name_ == "x"


def test_names_of_the_inside_of_nn():
    from rushlight.nn.modules.conv import _ConvTransposeMixin, _ConvTransposeNd
    from rushlight.nn.modules.module import _addindent
    from rushlight.nn.parallel.parallel_apply import get_a_var
    from rushlight.nn.parallel.scatter_gather import is_namedtuple

    sizes = (2, 3, (1,), (1,), (0,), (1,), False, (0,), 1, True, "zeros")
    with pytest.warns(FutureWarning, match="_ConvTransposeNd"):
        assert isinstance(_ConvTransposeMixin(*sizes), _ConvTransposeNd)
    assert _addindent("a\nb\n\nc", 3) == "a\n   b\n\n   c"
    x = rushlight.ones(1)
    assert get_a_var({"a": [1, (x,)]}) is x and get_a_var([1]) is None
    assert is_namedtuple(rushlight.finfo) is False
    assert is_namedtuple(collections.namedtuple("Pair", "a b")(1, 2))


def test_vmap_by_its_older_path():
    from rushlight._vmap_internals import _vmap

    x = rushlight.arange(6.0).view(3, 2)
    assert _vmap(lambda row: row.sum())(x).tolist() == [1, 5, 9]
    sums, none = _vmap(lambda row: (row.sum(), None), allow_none_pass_through=True)(x)
    assert sums.tolist() == [1, 5, 9] and none is None
    with pytest.raises(ValueError, match="must only return Tensors"):
        _vmap(lambda row: (row, None))(x)


def test_parts_of_jacobians():
    """Put together as programs do: rows of the Jacobian from a basis of the outputs."""
    functional = rushlight.autograd.functional
    weight = rushlight.ones(2, requires_grad=True)
    scaled = weight * rushlight.tensor([2.0, 3.0])
    was_tuple, outputs = functional._as_tuple(scaled, "outputs", "program")
    basis = functional._construct_standard_basis_for(outputs, [2])
    rows = [rushlight.autograd.grad(outputs, weight, row, True)[0] for row in basis[0]]
    jacobian = functional._grad_postprocess(((rushlight.stack(rows) * weight,),), False)
    jacobian = functional._tuple_postprocess(jacobian, (was_tuple, False))
    assert jacobian.tolist() == [[2, 0], [0, 3]] and not jacobian.requires_grad
    with pytest.raises(TypeError, match="outputs given to program"):
        functional._as_tuple([1], "outputs", "program")


def test_names_that_engines_of_other_libraries_import():
    from rushlight.cuda.amp.grad_scaler import OptState
    from rushlight.distributed.algorithms.ddp_comm_hooks import default
    from rushlight.jit.frontend import NotSupportedError
    from rushlight.optim.lbfgs import _cubic_interpolate

    assert OptState is rushlight.amp.grad_scaler.OptState and hasattr(default, "fp16_compress_hook")
    assert issubclass(NotSupportedError, RuntimeError)
    assert _cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0) == 1  # (x - 1)^2
    tied = rushlight.nn.Sequential(rushlight.nn.Linear(2, 2))
    tied.append(tied[0])
    assert list(rushlight.jit._unique_state_dict(tied)) == ["0.weight", "0.bias"]
    assert rushlight.nn.ModuleList([tied])._get_abs_string_index(-1) == "0"


def test_a_line_search_of_a_program():
    from rushlight.optim.lbfgs import _strong_wolfe

    def evaluate(x, t, d):
        at = x + t * d
        return float((at**2).sum()), 2 * at

    x = rushlight.tensor([3.0, 4.0])
    loss, grad = evaluate(x, 0, x)
    loss, grad, t, evaluations = _strong_wolfe(
        evaluate, x, 1.0, -grad, loss, grad, -grad.dot(grad), max_ls=9
    )
    assert t == pytest.approx(0.5) and loss == pytest.approx(0, abs=1e-9) and evaluations <= 9
