"""What libraries take from modules that programs do not name: it works, or refuses by name."""

import copy
import gc
import io
import logging
import unittest

import pytest

import rushlight
from rushlight import nn, serialization
from rushlight._core_names import _jit_set_profiling_mode
from rushlight._utils import (
    ExceptionWrapper,
    _flatten_dense_tensors,
    _get_device_index,
    _take_tensors,
    _unflatten_dense_tensors,
)
from rushlight.testing._internal import common_utils
from rushlight.utils import _python_dispatch, swap_tensors
from rushlight.utils._contextlib import _DecoratorContextManager
from rushlight.utils.weak import TensorWeakRef, WeakIdKeyDictionary

# --- flat buffers, exceptions, devices


def test_flat_buffers():
    tensors = [rushlight.arange(3.0), rushlight.ones(2, 2)]
    flat = _flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 1, 1, 1, 1]
    for part, tensor in zip(_unflatten_dense_tensors(flat, tensors), tensors):
        assert rushlight.equal(part, tensor)
    tensors.append(rushlight.ones(1, dtype=rushlight.int64))
    assert [len(group) for group in _take_tensors(tensors, 16)] == [1, 1, 1]
    assert [len(group) for group in _take_tensors(tensors, 100)] == [2, 1]


def test_exceptions_are_raised_again():
    try:
        raise KeyError("missing")
    except KeyError:
        wrapper = ExceptionWrapper(where="in worker 1")
    with pytest.raises(KeyError) as caught:
        wrapper.reraise()
    text = str(caught.value)
    assert text.startswith("Caught KeyError in worker 1.") and "missing" in text


def test_numbers_of_devices():
    assert _get_device_index(3) == 3 and _get_device_index("cpu", allow_cpu=True) == -1
    assert _get_device_index("cuda:2") == 2 and _get_device_index(None, optional=True) == 0
    for refused in ("cpu", None):
        with pytest.raises(ValueError):
            _get_device_index(refused)


def test_checks_with_messages():
    rushlight._check(True)
    with pytest.raises(RuntimeError, match="too small"):
        rushlight._check(False, lambda: "too small")
    with pytest.raises(IndexError):
        rushlight._check_index(False)
    with pytest.raises(TypeError):
        rushlight._check(1)
    with pytest.raises(RuntimeError):
        rushlight._check_tensor_all(rushlight.tensor([True, False]))
    assert rushlight.sym_max(1, 2.5) == 2.5 and isinstance(rushlight.sym_min(1, 2.0), float)
    assert rushlight.sym_ite(True, 1, 2) == 1 and rushlight.sym_sum([1, 2]) == 3


def test_bounds_of_numbers():
    rushlight.sym_constrain_range(3, min=3, max=3)
    rushlight.ops.aten.sym_constrain_range_for_size.default(0, max=3)
    rushlight._assert_scalar(2.5, "never seen")
    for function, args, bounds, message in (
        (rushlight.sym_constrain_range, (3,), {"min": 4}, "3 between"),
        (rushlight.sym_constrain_range, (3,), {"min": 4, "max": 2}, "min=4 max=2"),
        (rushlight.sym_constrain_range_for_size, (-1,), {}, "-1 between"),
        (rushlight.sym_constrain_range_for_size, (3,), {"max": 2}, "greater than 2. got: 2"),
        (rushlight._assert_scalar, (0, "none left"), {}, "none left"),
    ):
        with pytest.raises(RuntimeError, match=message):
            function(*args, **bounds)


def test_levels_of_loggers(monkeypatch):
    set_logs = rushlight._logging.set_logs
    monkeypatch.setattr(rushlight._ignored, "_warned", set())
    set_logs(all=logging.ERROR, export=logging.DEBUG, modules={"some.module": logging.INFO})
    level = lambda name: logging.getLogger(name).level  # noqa: E731
    assert level("torch") == level("rushlight") == logging.ERROR
    assert level("torch.export") == logging.DEBUG and level("some.module") == logging.INFO
    with pytest.warns(UserWarning, match="recompiles has no effect"):
        set_logs(recompiles=True, graph=False)
    assert level("torch") == level("torch.export") == logging.NOTSET
    logging.getLogger("some.module").setLevel(logging.NOTSET)
    with pytest.raises(TypeError, match="'recompile'"):
        set_logs(recompile=True)
    for wrong in ({"graph": 1}, {"export": "debug"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            set_logs(**wrong)
    assert rushlight._logging.getArtifactLogger("m", "graph").name == "m.__graph"
    with pytest.raises(RuntimeError, match="no artifact"):
        rushlight._logging.getArtifactLogger("m", "graphs")


def test_switches_of_a_compiler(recwarn):
    assert rushlight._C._is_tracing() is False and rushlight._C._jit_can_fuse_on_cpu() is False
    assert _jit_set_profiling_mode(False) is False and not recwarn
    assert rushlight._C._get_default_device() == "cpu"
    with rushlight._dynamo.config.patch(cache_size_limit=64):
        assert rushlight._dynamo.config.cache_size_limit == 64
    assert rushlight._dynamo.config.cache_size_limit == 8
    with pytest.raises(AttributeError):
        rushlight._dynamo.config.patch("no_such_option", 1).__enter__()


# --- tensors as keys, and exchanged


def test_swapped_tensors():
    a, b = nn.Parameter(rushlight.ones(3)), rushlight.zeros(2, dtype=rushlight.float64)
    a.tag = "a"
    first, second = id(a), id(b)
    swap_tensors(a, b)
    assert (id(a), id(b)) == (first, second)
    assert type(b) is nn.Parameter and b.tag == "a" and b.requires_grad and b.tolist() == [1, 1, 1]
    assert type(a) is rushlight.Tensor and a.dtype is rushlight.float64 and not a.requires_grad
    reference = TensorWeakRef(a)
    with pytest.raises(RuntimeError, match="weakrefs"):
        swap_tensors(a, b)
    assert reference() is a
    with pytest.raises(RuntimeError, match="computed"):
        swap_tensors(b, b * 2)


def test_dicts_by_identity():
    a, b = rushlight.ones(2), rushlight.ones(2)
    table = WeakIdKeyDictionary({a: 1})
    assert table[a] == 1 and b not in table and len(table) == 1
    assert copy.copy(table) == table and list(table) == [a]
    del a
    gc.collect()
    assert len(table) == 0


def test_contexts_that_decorate():
    events = []

    class Context(_DecoratorContextManager):
        def __enter__(self):
            events.append("in")

        def __exit__(self, *exception):
            events.append("out")

    @Context()
    def steps():
        received = yield 1
        events.append(received)
        yield 2

    generator = steps()
    assert next(generator) == 1 and events == ["in", "out"]
    assert generator.send("sent") == 2 and events == ["in", "out", "in", "sent", "out"]
    with pytest.raises(RuntimeError, match="class"):
        Context()(int)


def test_wrappers_need_a_class_that_dispatches():
    with pytest.raises(RuntimeError, match="__torch_dispatch__"):
        rushlight.Tensor._make_wrapper_subclass(rushlight.Tensor, (2,))
    assert not _python_dispatch.is_traceable_wrapper_subclass(rushlight.ones(1))


@pytest.mark.parametrize("name", ["int_repr", "q_scale", "resize_as_sparse_", "to_mkldnn"])
def test_what_is_refused_by_name(name):
    tensor = rushlight.ones(2)
    with pytest.raises(NotImplementedError, match=name):
        getattr(tensor, name)(*[tensor] * (name == "resize_as_sparse_"))


# --- storages


def test_storages_of_a_dtype():
    storage = rushlight.FloatStorage([1, 2, 3])
    assert storage.tolist() == [1, 2, 3] and storage.type() == "torch.FloatStorage"
    assert isinstance(storage, rushlight.FloatStorage) and isinstance(storage, rushlight.Storage)
    assert not isinstance(storage, rushlight.LongStorage)
    assert isinstance(rushlight.ones(2).long().storage(), rushlight.LongStorage)
    assert storage.double().dtype is rushlight.float64 and storage.long().tolist() == [1, 2, 3]
    assert rushlight.ByteStorage(5).nbytes() == 5 and rushlight.is_storage(storage)
    typed = rushlight.TypedStorage(3, dtype=rushlight.int16)
    assert typed.fill_(7).tolist() == [7, 7, 7] and typed.element_size() == 2
    shared = rushlight.tensor([0.0]).set_(storage)
    storage[0] = 5.0
    assert shared.tolist() == [5, 2, 3]
    with pytest.raises(RuntimeError, match="has room for 12 bytes, not for 20"):
        storage.resize_(5)
    del shared
    storage.resize_(5)
    assert len(storage) == 5 and storage[0] == 5.0
    with pytest.raises(RuntimeError):
        rushlight.TypedStorage(-1)


# --- files


def written(value, **options):
    stream = io.BytesIO()
    rushlight.save(value, stream, **options)
    stream.seek(0)
    return stream


def test_the_format_before_zip():
    base = rushlight.arange(4.0)
    value = {"base": base, "view": base[1:], "rest": [nn.Parameter(rushlight.ones(2)), "text"]}
    stream = written(value, _use_new_zipfile_serialization=False)
    assert not serialization._is_zipfile(stream)
    found = rushlight.load(stream)
    assert found["rest"][1] == "text" and rushlight.equal(found["rest"][0], value["rest"][0])
    found["base"][1] = 9
    assert found["view"].tolist() == [9, 2, 3], "they share memory"


def test_files_without_data():
    with serialization.skip_data():
        stream = written({"a": rushlight.ones(3)})
    assert rushlight.load(stream)["a"].tolist() == [0, 0, 0]
    assert rushlight.load(written(rushlight.ones(3))).tolist() == [1, 1, 1]


def test_names_in_files():
    model = nn.Sequential(nn.Linear(2, 2))
    found = serialization.get_unsafe_globals_in_checkpoint(written({"model": model}))
    wanted = ["torch.nn.modules.container.Sequential", "torch.nn.modules.linear.Linear"]
    assert sorted(found) == wanted
    with serialization.safe_globals([nn.Linear]):
        found = serialization.get_unsafe_globals_in_checkpoint(written({"model": model}))
    assert found == wanted[:1]
    assert serialization.get_unsafe_globals_in_checkpoint(written(model.state_dict())) == []


def test_orders_of_bytes():
    stream = written(rushlight.tensor([1, 256]), _disable_byteorder_record=True)
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        assert rushlight.load(stream).tolist() == [1 << 56, 1 << 48]
    finally:
        serialization.set_default_load_endianness(None)
    stream.seek(0)
    assert rushlight.load(stream).tolist() == [1, 256]


def test_files_mapped_so_that_changes_stay(tmp_path):
    import mmap

    path = tmp_path / "a.pt"
    rushlight.save(rushlight.zeros(3), path)
    rushlight.load(path, mmap=True).fill_(1)
    assert rushlight.load(path).tolist() == [0, 0, 0]
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        rushlight.load(path, mmap=True).fill_(2)
    assert rushlight.load(path, mmap=True).tolist() == [2, 2, 2]
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE


# --- tests that use torch's own TestCase


def test_a_case_of_tests():
    class Case(common_utils.TestCase):
        @common_utils.parametrize("shift", [0.0, 1e-9, common_utils.subtest(1.0, "far")])
        def test_near(self, shift):
            self.assertEqual(rushlight.ones(2), rushlight.ones(2) + shift)

        def test_others(self):
            self.assertEqual([1, rushlight.ones(1)], [1, rushlight.ones(1)])
            self.assertEqual("a", "a")
            self.assertEqual(rushlight.tensor([3]), 3)
            self.assertEqual([(rushlight.tensor(3), 1)], [(3, rushlight.tensor(1))])
            self.assertNotEqual(2, rushlight.tensor(3))
            self.assertNotEqual(rushlight.ones(1), rushlight.zeros(1))

    common_utils.instantiate_parametrized_tests(Case)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert result.testsRun == 4 and not result.errors
    assert [case.id().rpartition(".")[2] for case, _ in result.failures] == ["test_near_far"]


def test_gradients_of_each_example():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads

    net, x = nn.Linear(3, 2), rushlight.randn(4, 3)
    (call_for_per_sample_grads(net, loss_reduction="mean")(x) ** 2).sum(1).mean().backward()
    for i in range(4):
        loss = (net(x[i]) ** 2).sum()
        for parameter, grad in zip(net.parameters(), rushlight.autograd.grad(
            loss, list(net.parameters())
        )):  # fmt: skip
            rushlight.testing.assert_close(parameter.grad_sample[i], grad)
    with pytest.raises(RuntimeError, match="grad_sample"):
        call_for_per_sample_grads(net)
    plain = rushlight.nn.LayerNorm(3, elementwise_affine=False)
    x = rushlight.randn(4, 3, requires_grad=True)
    call_for_per_sample_grads(plain)(x)[:, 0].sum().backward()
    assert x.grad.abs().sum() > 0
    net, x = nn.Linear(3, 2), rushlight.randn(5, 4, 3, requires_grad=True)
    (call_for_per_sample_grads(net, batch_first=False)(x) ** 2).sum().backward()
    expected = rushlight.autograd.grad((net(x) ** 2).sum(), (x, net.weight))
    rushlight.testing.assert_close(x.grad, expected[0])
    rushlight.testing.assert_close(net.weight.grad_sample.sum(0), expected[1])


def test_a_module_as_a_function():
    import rushlight.functorch as functorch

    net, x = nn.Sequential(nn.Linear(3, 2), nn.Tanh()), rushlight.randn(4, 3)
    function, parameters = functorch.make_functional(net)
    assert rushlight.equal(function(parameters, x), net(x))
    with pytest.raises(RuntimeError, match="with_buffers"):
        functorch.make_functional(nn.BatchNorm1d(2))
    nets = [nn.Linear(3, 2) for _ in range(3)]
    function, parameters, buffers = functorch.combine_state_for_ensemble(nets)
    out = rushlight.vmap(function, (0, 0, None))(parameters, buffers, x)
    rushlight.testing.assert_close(out, rushlight.stack([one(x) for one in nets]))


# --- sharding


def test_names_of_sharding():
    from rushlight.distributed import fsdp
    from rushlight.distributed._composable.fsdp import FSDPModule
    from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy

    net = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="init_process_group"):
        fsdp.FullyShardedDataParallel(net)
    assert fsdp.FullyShardedDataParallel.fsdp_modules(net) == []
    assert not isinstance(net, FSDPModule)
    assert fsdp.MixedPrecision(param_dtype=rushlight.bfloat16).param_dtype is rushlight.bfloat16
    policy = ModuleWrapPolicy([nn.Linear])
    assert policy(net[0], False) and not policy(net, False) and policy(net, True)
    assert size_based_auto_wrap_policy(net, False, 10, min_num_params=5)
    assert not size_based_auto_wrap_policy(net, False, 4, min_num_params=5)


# --- operations and tables that libraries of quantization look for


def test_an_operation_in_a_wider_dtype():
    from rushlight._higher_order_ops.out_dtype import out_dtype

    a = rushlight.full((2, 16), 127, dtype=rushlight.int8)
    product = out_dtype(rushlight.ops.aten.mm.default, rushlight.int32, a, a.T)
    assert product.dtype is rushlight.int32 and product.tolist() == [[127 * 127 * 16] * 2] * 2


def test_strides_and_memory_formats():
    from rushlight._prims_common import make_contiguous_strides_for, suggest_memory_format

    for shape in ((), (3,), (2, 3, 4), (2, 0, 4)):
        assert make_contiguous_strides_for(shape) == rushlight.empty(shape).stride()
    assert make_contiguous_strides_for((2, 3, 4), row_major=False) == (12, 1, 3)
    for x in (rushlight.ones(2, 3, 4, 5), rushlight.ones(2, 3, 4, 5, 6)):
        assert suggest_memory_format(x) is rushlight.contiguous_format
        last = {4: rushlight.channels_last, 5: rushlight.channels_last_3d}[x.dim()]
        assert suggest_memory_format(x.to(memory_format=last)) is last
    assert suggest_memory_format(rushlight.ones(2, 3)) is rushlight.contiguous_format
    assert suggest_memory_format(rushlight.ones(2, 1, 1, 1)) is rushlight.contiguous_format


def test_a_warning_is_given_once():
    from rushlight._dynamo.utils import disable_cache_limit, warn_once

    with pytest.warns(UserWarning, match="slow for this input") as found, disable_cache_limit():
        warn_once("slow for this input")
        warn_once("slow for this input")
    assert len(found) == 1


def test_tables_of_decompositions():
    from rushlight import _decomp
    from rushlight.fx.experimental.proxy_tensor import make_fx

    aten = rushlight.ops.aten
    table = dict(_decomp.core_aten_decompositions())
    assert set(_decomp.get_decompositions([aten.silu, aten.softmax.default, aten.sinc])) == {
        aten.silu.default,
        aten.softmax.default,
    }

    def code(table):
        return make_fx(rushlight.nn.functional.silu, decomposition_table=table)(
            rushlight.ones(2)
        ).code

    assert "aten.sigmoid" in code(table)
    _decomp.remove_decompositions(table, [aten.silu, aten.sinc.default])
    assert "aten.silu" in code(table)

    @_decomp.register_decomposition([aten.sinc.default], table)
    def sinc(x):
        return x

    assert table[aten.sinc.default] is sinc
    assert aten.sinc.default not in _decomp.decomposition_table
    with pytest.raises(AssertionError, match="type must be one of"):
        _decomp.get_decompositions([aten.silu], type="forward")


def test_tables_that_nothing_reads():
    from rushlight._inductor.decomposition import decompositions, register_decomposition
    from rushlight.sparse._triton_ops_meta import get_meta, minimize, update

    @register_decomposition([rushlight.ops.aten.sinc.default])
    def sinc(x):
        return x

    assert decompositions.pop(rushlight.ops.aten.sinc.default) is sinc
    assert get_meta("bsr_dense_addmm", (1, 2)) is None
    with pytest.raises(NotImplementedError, match="bsr_dense_addmm"):
        update("bsr_dense_addmm", "cpu", 1, (1, 2), {})
    with pytest.raises(NotImplementedError):
        minimize(lambda parameters: 0.0, {})


def test_attributes_of_a_tensor_as_state():
    class Named(rushlight.Tensor):
        pass

    x = rushlight.ones(2).as_subclass(Named)
    x.label = "x"
    y = rushlight._utils._set_obj_state(rushlight.ones(2).as_subclass(Named), {"label": "y"})
    assert rushlight._utils._get_obj_state(x) == {"label": "x"} and y.label == "y"
    rushlight._utils._set_obj_state(y, ({"label": "z"}, {"place": 1}))
    assert (y.label, y.place) == ("z", 1)


def test_collectives_are_operations():
    ops = rushlight.ops._c10d_functional
    for name in ("all_reduce", "all_gather_into_tensor", "wait_tensor", "_wrap_tensor_autograd"):
        assert str(getattr(ops, name).default) == f"_c10d_functional.{name}.default"
    assert ops.wait_tensor(rushlight.ones(2)).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="scatter_"):
        rushlight.ops.c10d.scatter_([rushlight.ones(1)], [[rushlight.ones(1)]], None, 0)


def test_operations_of_ones_own_take_carried_dtypes():
    library = rushlight.library.Library("docs_carried", "DEF")
    library.define("cast(Tensor x, ScalarType dtype) -> Tensor")
    library.impl("cast", lambda x, dtype: x.to(dtype), "CompositeExplicitAutograd")
    cast = rushlight.ops.docs_carried.cast
    small = cast(rushlight.ones(2, 3), rushlight.float8_e4m3fn)
    assert small.dtype is rushlight.float8_e4m3fn
    assert cast(small, rushlight.float32).tolist() == [[1.0] * 3] * 2
    flat = rushlight.ops.aten.view.default(small, [6])
    assert flat.dtype is rushlight.float8_e4m3fn and flat.shape == (6,)


def test_mappings_that_answer_for_their_keys_alone():
    class Table(dict):
        def __contains__(self, key):
            raise NotImplementedError("ask keys()")

    one = Table(a=rushlight.ones(2))
    rushlight.testing.assert_close(one, Table(a=rushlight.ones(2)))
    with pytest.raises(AssertionError, match="Missing keys.*b"):
        rushlight.testing.assert_close(one, Table(a=rushlight.ones(2), b=rushlight.ones(1)))


def test_a_lazy_module_may_be_moved():
    module = nn.LazyLinear(3).to("cpu")
    assert module(rushlight.ones(2, 4)).shape == (2, 3)
    assert not isinstance(module, rushlight._C._distributed_rpc.PyRRef)


def test_schemas_that_mark_what_is_written_without_a_name():
    library = rushlight.library.Library("docs_unnamed", "DEF")
    library.define("add_to.out(Tensor a, Tensor! out, Tensor! other) -> ()")
    overload = rushlight.ops.docs_unnamed.add_to.out
    sets = [argument.alias_info for argument in overload._schema.arguments]
    assert sets[0] is None and sets[1].is_write and sets[1].before_set == {"$0"}
    assert sets[2].before_set == {"$1"} and overload._schema.is_mutable
    library.impl("add_to.out", lambda a, out, other: out.copy_(a), "CPU")
    out = rushlight.zeros(2)
    overload(rushlight.ones(2), out, rushlight.zeros(1))
    assert out.tolist() == [1, 1]


def test_paths_that_libraries_import_from():
    from rushlight._subclasses.fake_tensor import FakeTensorConverter
    from rushlight.distributed._composable.fsdp import CPUOffloadPolicy
    from rushlight.distributed._tensor.placement_types import DTensorSpec, Shard
    from rushlight.nn.utils.clip_grad import _no_grad, _tensor_or_tensors

    assert (
        Shard(0).dim == 0 and CPUOffloadPolicy and isinstance(rushlight.ones(1), _tensor_or_tensors)
    )
    assert _no_grad(rushlight.is_grad_enabled)() is False
    assert DTensorSpec.__name__ == "DTensorSpec"
    with pytest.raises(NotImplementedError):
        FakeTensorConverter()


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_says_what_programs_look_for(replacement):
    for entry in (float("nan"), float("inf"), -1.0):
        with pytest.raises(RuntimeError, match="probability tensor contains either.*invalid multi"):
            rushlight.tensor([1.0, entry]).multinomial(1, replacement)
    with pytest.raises(RuntimeError, match="invalid multinomial distribution .*sum of prob.*row 1"):
        rushlight.tensor([[1.0, 1.0], [0.0, 0.0]]).multinomial(1, replacement)
