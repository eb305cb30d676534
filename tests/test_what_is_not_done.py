"""What is not done says so: refused, or warned of by name, once."""

import io
import json
import pickle
import subprocess
import sys
import threading

import pytest
from table import ROWS

import rushlight
from rushlight import _ignored, func, jit, nn
from rushlight.autograd import forward_ad, profiler
from rushlight.profiler import profile, record_function


@pytest.fixture(autouse=True)
def not_warned_yet(monkeypatch):
    monkeypatch.setattr(_ignored, "_warned", set())


def check_warned_once(call, text):
    with pytest.warns(UserWarning, match=text) as caught:
        call()
    assert [w.filename for w in caught] == [__file__], "the warning names the line of the program"
    call()  # a second warning would be an error


# --- TorchScript


ran = []


class Payload:
    def __reduce__(self):
        return ran.append, (1,)


def test_jit_files_are_read_safely():
    stream = io.BytesIO(pickle.dumps(Payload()))
    with pytest.raises(ValueError, match="no program"):
        jit.load(stream)
    stream = io.BytesIO()
    rushlight.save(Payload(), stream)
    stream.seek(0)
    with pytest.raises(ValueError, match="is damaged"):
        jit.load(stream)
    assert not ran
    with pytest.raises(TypeError):
        jit.save(Payload(), io.BytesIO())
    with pytest.warns(UserWarning, match="Payload runs as Python"):
        assert jit.script(Payload) is Payload


# --- memory

FACTORIES = {
    "zeros": ((2,),), "ones": ((2,),), "empty": ((2,),), "full": ((2,), 1), "arange": (3,),
    "linspace": (0, 1, 3), "logspace": (0, 1, 3), "eye": (2,), "rand": ((2,),), "randn": ((2,),),
    "randint": (3, (2,)), "randperm": (3,), "tril_indices": (2, 2), "triu_indices": (2, 2),
    "empty_strided": ((2,), (1,)), "empty_permuted": ((2, 3), (1, 0)), "tensor": ([1],),
    "scalar_tensor": (1,), "hann_window": (3,), "hamming_window": (3,), "kaiser_window": (3,),
    "blackman_window": (3,), "bartlett_window": (3,), "normal": (0.0, 1.0, (2,)),
    "sparse_coo_tensor": ([[0]], [1.0], (2,)),
    "zeros_like": (rushlight.ones(2),), "ones_like": (rushlight.ones(2),),
    "empty_like": (rushlight.ones(2),), "full_like": (rushlight.ones(2), 1),
    "rand_like": (rushlight.ones(2),), "randn_like": (rushlight.ones(2),),
    "randint_like": (rushlight.ones(2), 3),
    "Tensor.new_zeros": (rushlight.ones(2), (2,)), "Tensor.new_ones": (rushlight.ones(2), (2,)),
    "Tensor.new_empty": (rushlight.ones(2), (2,)), "Tensor.new_full": (rushlight.ones(2), (2,), 1),
    "Tensor.new_tensor": (rushlight.ones(2), [1]),
    "Tensor.new_empty_strided": (rushlight.ones(2), (2,), (1,)),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORIES)
def test_no_memory_is_pinned(name):
    function = rushlight
    for part in name.split("."):
        function = getattr(function, part)
    with pytest.raises(RuntimeError, match="no accelerator|for dense tensors"):
        function(*FACTORIES[name], pin_memory=True)
    function(*FACTORIES[name], pin_memory=False)


def test_all_functions_that_could_pin_are_here():
    rows = [op for op in ROWS if any(p.name == "pin_memory" for p in op.signature.parameters)]
    names = {name.removeprefix("torch.") for op in rows for name in op.python_names}
    assert names <= set(FACTORIES)


def test_pinning_what_there_is():
    x = rushlight.ones(2)
    sequence = nn.utils.rnn.pack_sequence([x])
    for owner in (x, x.storage(), x.untyped_storage(), sequence):
        with pytest.raises(RuntimeError, match="accelerator"):
            owner.pin_memory()
        assert not owner.is_pinned()
    assert rushlight.empty(2, device="meta", pin_memory=True).is_meta, "as torch has it"


def test_sizes_of_storages_count_their_data():
    small, large = rushlight.ones(1), rushlight.ones(1001)
    for kind in (rushlight.Tensor.storage, rushlight.Tensor.untyped_storage):
        assert sys.getsizeof(kind(large)) - sys.getsizeof(kind(small)) == 4000


def test_a_buffer_of_nothing():
    for buffer in (b"", bytearray(), memoryview(b"")):
        with pytest.raises(ValueError, match=r"buffer length \(0\)"):
            rushlight.frombuffer(buffer, dtype=rushlight.float32)
    with pytest.raises(ValueError, match=r"count \(0\)"):
        rushlight.frombuffer(bytearray(4), dtype=rushlight.float32, count=0)


# --- tiny numbers


@pytest.fixture
def flushing():
    assert rushlight.set_flush_denormal(True) is True
    yield
    assert rushlight.set_flush_denormal(False) is True


def tiny(count=4):
    x = rushlight.full((count,), 2.0**-126)  # the smallest normal number
    return x, x / 2


def test_tiny_numbers_become_zero(flushing):
    assert not tiny()[1].any() and tiny()[0].all()
    assert rushlight.tensor([2.0**-1060], dtype=rushlight.float64).mul(1) == 0
    with pytest.raises(TypeError):
        rushlight.set_flush_denormal("yes")


def test_tiny_numbers_stay():
    assert tiny()[1].all()


@pytest.mark.parametrize("flushes", [True, False])
def test_threads_compute_with_tiny_numbers_as_their_caller(flushes):
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(4)
    rushlight._C._set_largest_grain(100)
    try:
        for each in (flushes, not flushes, flushes):
            rushlight.set_flush_denormal(each)
            for _ in range(20):
                assert tiny(100_000)[1].count_nonzero() == (0 if each else 100_000)
        other = []
        thread = threading.Thread(target=lambda: other.append(rushlight.set_flush_denormal(True)))
        thread.start()
        thread.join()
        assert other == [True] and bool(tiny(100_000)[1].any()) is not flushes
    finally:
        rushlight.set_flush_denormal(False)
        rushlight._C._set_largest_grain(0)
        rushlight.set_num_threads(before)


# --- the profiler


@pytest.mark.parametrize("kind", [profile, profiler.profile])
def test_profiles_warn_of_what_they_do_not_hold(kind):
    check_warned_once(lambda: kind(experimental_config=True), "experimental_config has no effect")
    kind(experimental_config=False)
    with pytest.raises(TypeError):
        kind(unknown=True)


def test_profiles_of_devices():
    activities = [rushlight.profiler.ProfilerActivity.CUDA]
    check_warned_once(lambda: profile(activities=activities), "CUDA is not watched")
    with (
        pytest.warns(FutureWarning, match="use_cuda"),
        pytest.warns(UserWarning, match="CUDA is not available"),
    ):
        assert not profiler.profile(use_cuda=True).activities & set(activities)
    with pytest.warns(FutureWarning, match="use_cuda"):
        asked = profile(use_cuda=True)
    assert asked.activities == {*rushlight.profiler.supported_activities(), *activities}


def test_a_profile_prints_its_table():
    with profiler.profile() as prof:
        rushlight.ones(2).exp()
    assert str(prof) == prof.table() and "Self CPU time total" in str(prof)
    assert repr(prof) == repr(prof.function_events) and "name=aten::exp" in repr(prof)


def test_columns_of_tables():
    with profile(record_shapes=True) as prof:
        with record_function("outer"):
            rushlight.ones(2, 3).exp()
    events = prof.events()
    assert "aten::exp" not in events.table(top_level_events_only=True)
    assert "outer" in events.table(top_level_events_only=True)
    lines = events.table(time_unit="ms", max_shapes_column_width=3).splitlines()
    assert "ms" in lines[-1] and not any("us" in line for line in lines)
    assert any(line.rstrip().endswith(" [[2") for line in lines)
    with pytest.raises(ValueError, match="time unit"):
        events.table(time_unit="hours")
    with pytest.raises(TypeError):
        events.table(colour=1)


# --- others


def test_pickle_modules(tmp_path):
    path = tmp_path / "x"
    check_warned_once(lambda: rushlight.save(1, path, pickle_module=json), "pickle_module")
    rushlight.save(1, path, pickle_module=pickle)


@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_jacobians_in_chunks(jacobian, size):
    a, b = rushlight.rand(2, 3), rushlight.rand(3)

    def f(a, b):
        return {"matrix": (a * b).sin(), "number": (a @ b).sum()}

    found = jacobian(f, (0, 1), chunk_size=size)(a, b)
    expected = jacobian(f, (0, 1))(a, b)
    for key in expected:
        for one, other in zip(found[key], expected[key], strict=True):
            assert one.shape == other.shape and rushlight.allclose(one, other)
    with pytest.raises(ValueError, match="chunk_size"):
        jacobian(f, chunk_size=0)(a, b)


def test_places_and_layouts():
    for call in (rushlight.fft.fftfreq, rushlight.fft.rfftfreq):
        assert call(4, device="meta").is_meta
        with pytest.raises(NotImplementedError, match="layout"):
            call(4, layout=rushlight.sparse_coo)
    with pytest.raises(NotImplementedError, match="layout"):
        rushlight.range(0, 3, layout=rushlight.sparse_coo)
    with pytest.raises(NotImplementedError, match="layout"):
        rushlight.scalar_tensor(0, layout=rushlight.sparse_coo)


def test_levels_of_forward_mode():
    x = rushlight.ones(2)
    with forward_ad.dual_level():
        forward_ad.unpack_dual(forward_ad.make_dual(x, x, level=0), level=0)
        for call in (
            lambda: forward_ad.make_dual(x, x, level=1),
            lambda: forward_ad.unpack_dual(x, level=1),
            lambda: forward_ad.exit_dual_level(level=1),
        ):
            with pytest.raises(RuntimeError, match="one level"):
                call()


def test_sparse_tensors_refuse_what_they_have_not():
    x = rushlight.eye(3).to_sparse()
    assert rushlight.zeros_like(x, requires_grad=True).requires_grad
    assert x.to_sparse(sparse_dim=2).sparse_dim() == 2
    for call in (
        lambda: x.to_sparse(sparse_dim=1),
        lambda: x.to_sparse(blocksize=(1, 1)),
        lambda: x.clone(memory_format=rushlight.channels_last),
        lambda: x.to(rushlight.float64, memory_format=rushlight.channels_last),
        lambda: rushlight.zeros_like(x, device="meta"),
        lambda: rushlight.zeros_like(x, pin_memory=True),
        lambda: rushlight.eye(3).to_sparse(blocksize=(1, 1)),
    ):
        with pytest.raises((RuntimeError, NotImplementedError)):
            call()
    with pytest.raises(TypeError):
        x.to(rushlight.float64, colour=1)


def test_gradients_that_are_not_sparse():
    """In a process of its own, for the warning comes from C++, once."""
    program = (
        "import rushlight, warnings\n"
        "warnings.simplefilter('always')\n"
        "x = rushlight.ones(3, requires_grad=True)\n"
        "for i in range(2):\n"
        "    x.gather(0, rushlight.tensor([1]), sparse_grad=True).sum().backward()\n"
        "assert x.grad.tolist() == [0, 2, 0]\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0 and result.stderr.count("sparse_grad has no effect") == 1


def test_kernels_that_may_not_be_replaced():
    with rushlight.library._scoped_library("once", "FRAGMENT") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x.clone(), "CPU", allow_override=False)
        with pytest.raises(RuntimeError, match="allow_override"):
            lib.impl("f", lambda x: x.clone(), "CPU", allow_override=False)
        lib.impl("f", lambda x: x.clone(), "CPU")
        rushlight.library.register_fake("once::f", lambda x: x, lib=lib, allow_override=False)
        with pytest.raises(RuntimeError, match="allow_override"):
            rushlight.library.register_fake("once::f", lambda x: x, lib=lib, allow_override=False)


def test_members_that_are_not_in_the_world():
    d = rushlight.distributed
    d.init_process_group("gloo", world_size=1, rank=0)
    try:
        x, objects = rushlight.ones(2), [1]
        for call in (
            lambda rank: d.reduce(x, group_dst=rank),
            lambda rank: d.broadcast(x, group_src=rank),
            lambda rank: d.gather(x, [x.clone()], group_dst=rank),
            lambda rank: d.scatter(x, [x.clone()], group_src=rank),
            lambda rank: d.gather_object(1, objects, group_dst=rank),
            lambda rank: d.broadcast_object_list(objects, group_src=rank),
            lambda rank: d.scatter_object_list(objects, [1], src=rank),
        ):
            call(0)
            with pytest.raises(ValueError, match="rank 3 is not in a world of 1"):
                call(3)
        d.all_to_all_single(x, x.clone(), [2], [2])
        with pytest.raises(ValueError, match="parts"):
            d.all_to_all_single(x, x.clone(), [1, 1], [1, 1])
    finally:
        d.destroy_process_group()
