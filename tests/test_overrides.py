"""Function modes, and what rushlight.overrides tells about functions."""

import gc
import operator
import weakref
from typing import ClassVar

import pytest

import rushlight
from rushlight import nn
from rushlight.overrides import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    get_ignored_functions,
    get_overridable_functions,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    is_tensor_method_or_property,
    redispatch_function,
    resolve_name,
    wrap_torch_function,
)

F = nn.functional


class Log(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Wrapper:
    """Not a tensor, but it takes over functions."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, len(args), kwargs


def test_a_mode_sees_operations_methods_factories_and_functions_in_python():
    x = rushlight.rand(1, 3, 8, 8)
    with Log() as log:
        rushlight.add(x, 1)
        x.add(1)
        x + 1
        rushlight.zeros(2)
        F.relu(x)
        F.interpolate(x, scale_factor=2)
        F.adaptive_avg_pool2d(x, 2)
        rushlight.linalg.pinv(x[0, 0])
        rushlight.einsum("ij->ji", x[0, 0])
    assert log.names[:5] == ["add", "add", "add", "zeros", "relu"]
    assert {"interpolate", "adaptive_avg_pool2d", "pinv", "einsum"} <= set(log.names)
    assert "_interpolate" not in log.names, "a function is seen as a whole"


def test_modes_nest_and_end_with_an_error():
    x = rushlight.rand(2)
    with Log() as outer, Log() as inner:
        x.exp()
    assert outer.names == inner.names == ["exp"]
    with pytest.raises(ZeroDivisionError), Log():
        raise ZeroDivisionError
    assert rushlight.overrides._get_current_function_mode_stack() == []


def test_a_mode_may_answer_itself_or_decline():
    class Zero(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return 0 if func is rushlight.exp else func(*args, **(kwargs or {}))

    with Zero(), BaseTorchFunctionMode():
        assert rushlight.exp(rushlight.ones(2)) == 0
        assert rushlight.ones(2).sum().item() == 2
    with pytest.raises(NotImplementedError, match="TorchFunctionMode has no"), TorchFunctionMode():
        rushlight.ones(2)


def test_inner_calls_go_to_the_mode_outside():
    class Twice(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) * 2

    x = rushlight.ones(2)
    with Log() as log, Twice():
        y = x.exp()
    assert log.names == ["exp", "mul"] and rushlight.allclose(y, x.exp() * 2)


def test_modes_and_default_devices_end_in_any_order():
    rushlight.set_default_device("meta")
    with Log() as log:
        rushlight.set_default_device(None)
        assert rushlight.ones(2).device.type == "cpu"
    assert log.names and rushlight.overrides._get_current_function_mode() is None


def test_functions_in_python_may_be_taken_over():
    name, count, options = F.interpolate(Wrapper(), scale_factor=2)
    assert (name, count, options["scale_factor"]) == ("interpolate", 1, 2)
    assert F.grid_sample(rushlight.ones(1), grid=Wrapper())[0] == "grid_sample"
    assert rushlight.tensordot(Wrapper(), Wrapper()) == ("tensordot", 2, {"dims": 2, "out": None})
    assert rushlight.fft.rfft(Wrapper())[0] == "rfft"
    assert rushlight.linalg.cond(Wrapper())[0] == "cond"


def test_subclasses_keep_their_class_in_functions_in_python():
    class Mine(rushlight.Tensor):
        pass

    x = rushlight.rand(1, 1, 4, 4).as_subclass(Mine)
    for y in (F.interpolate(x, scale_factor=2), F.adaptive_avg_pool2d(x, 2), F.max_pool2d(x, 2)):
        assert type(y) is Mine


def test_functions_of_ones_own():
    @wrap_torch_function(lambda a, b=None: (a, b))
    def mine(a, b=None):
        return "plain"

    assert mine(1) == "plain" and mine(rushlight.ones(1)) == "plain"
    assert mine(1, b=Wrapper()) == ("mine", 1, {"b": handle_argument(mine)})


def handle_argument(function):
    class Any:
        def __eq__(self, other):
            return isinstance(other, Wrapper)

    return Any()


def test_questions():
    x, w = rushlight.ones(1), Wrapper()
    assert has_torch_function((x, w)) and not has_torch_function((x, 1))
    assert has_torch_function_unary(w) and has_torch_function_variadic(x, w)
    assert is_tensor_like(x) and is_tensor_like(w) and not is_tensor_like(1)
    assert handle_torch_function(rushlight.exp, (w,), w) == ("exp", 1, {})
    assert resolve_name(rushlight.add) == "torch.add"
    assert resolve_name(rushlight.Tensor.add) == "torch.Tensor.add"
    assert resolve_name(F.interpolate) == "torch.nn.functional.interpolate"
    assert resolve_name(rushlight.Tensor.grad.__get__) == "torch.Tensor.grad.__get__"
    assert resolve_name(len) is None
    assert is_tensor_method_or_property(rushlight.Tensor.add)
    assert not is_tensor_method_or_property(rushlight.add)
    functions = get_overridable_functions()
    assert rushlight.Tensor.add in functions[rushlight.Tensor]
    assert rushlight.conv2d in functions[rushlight] and F.conv2d in functions[F]
    assert rushlight.zeros not in functions[rushlight]


class Named:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("einsum", lambda x: rushlight.einsum("ij,jk", (rushlight.ones(2, 2), x))),
        ("einsum", lambda x: rushlight.einsum("ij,jk", [x, x])),
        ("einsum", lambda x: rushlight.einsum("ij,jk", rushlight.ones(2, 2), x)),
        ("einsum", lambda x: rushlight.einsum(x, [0, 1], [0])),
        ("meshgrid", lambda x: rushlight.meshgrid([x, rushlight.ones(2)], indexing="ij")),
        ("atleast_3d", lambda x: rushlight.atleast_3d([x])),
        ("stft", lambda x: rushlight.stft(x, 4)),
        ("istft", lambda x: rushlight.istft(x, 4)),
        ("histogram", lambda x: rushlight.histogram(x, 3)),
        ("histogramdd", lambda x: rushlight.histogramdd(x, 3)),
        ("gradient", lambda x: rushlight.gradient(x)),
        ("segment_reduce", lambda x: rushlight.segment_reduce(x, "sum")),
        ("grid_sampler", lambda x: rushlight.grid_sampler(x, x, 0, 0, False)),
    ],
)
def test_any_argument_takes_a_function_over(name, call):
    assert call(Named()) == name


def test_a_class_is_asked_about_an_index_of_it():
    asked = []

    class Asked(rushlight.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    index, x = rushlight.tensor([1, 0]).as_subclass(Asked), rushlight.arange(3.0)
    assert type(x[index]) is Asked and type(x[None][0, index]) is Asked
    x[index] = 5.0
    x[index,] = rushlight.tensor([6.0, 7.0])
    assert asked == ["__getitem__"] * 2 + ["__setitem__"] * 2 and x.tolist() == [7, 6, 2]


@pytest.mark.parametrize("where, name", [(rushlight, "index_select"), (rushlight.Tensor, "view")])
def test_a_class_is_told_of_the_function_whose_place_another_has(where, name, monkeypatch):
    class Asked(rushlight.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func

    own = getattr(where, name)
    arguments = {"index_select": (0, rushlight.tensor([0])), "view": (3, 1)}[name]
    x = rushlight.ones(3).as_subclass(Asked)
    assert own(x, *arguments) is own
    monkeypatch.setattr(where, name, lambda *args: own(*args))
    assert getattr(where, name)(x, *arguments) == own


def test_subclasses_keep_their_class_in_lists_and_iteration():
    class Kind(rushlight.Tensor):
        pass

    x = rushlight.ones(2, 2).as_subclass(Kind)
    assert type(rushlight.einsum("ij,jk->ik", (x, rushlight.ones(2, 2)))) is Kind
    assert [type(row) for row in x] == [Kind, Kind]
    with pytest.raises(TypeError, match="0-d"):
        iter(x.sum())


def test_redispatch_with_arguments_that_are_no_sequence_keeps_nothing():
    kept = rushlight.ones(2)
    seen = weakref.ref(kept)
    with pytest.raises(TypeError, match="not iterable"):
        redispatch_function(rushlight.add, (), 5, {"other": kept})
    del kept
    gc.collect()
    assert seen() is None


def test_einsum_gives_its_operands_one_by_one():
    class Seen(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.args = args if func is rushlight.einsum else self.args
            return func(*args, **(kwargs or {}))

    a = rushlight.ones(2, 2)
    for given in ((a, a), ((a, a),), ([a, a],)):
        with Seen() as seen:
            rushlight.einsum("ij,jk->ik", *given)
        assert seen.args[0] == "ij,jk->ik" and seen.args[1] is seen.args[2] is a
    with Seen() as seen:
        assert rushlight.einsum(a, [0, 1], a, [1, 2]).tolist() == [[2, 2], [2, 2]]
    assert seen.args[1] == [0, 1]


def test_redispatch_skips_one_question():
    class Seen(rushlight.Tensor):
        names = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.names.append(func.__name__)
            return redispatch_function(func, types, args, kwargs)

    class SeenByMode(TorchFunctionMode):
        def __init__(self):
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            with self:
                return redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if has_torch_function((a, b)):
            return handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    a, b = rushlight.tensor([3.0]), rushlight.tensor([4.0])
    result = scaled(a.as_subclass(Seen), b)
    assert Seen.names == ["scaled", "mul"]  # whose result is a plain tensor
    assert type(result) is rushlight.Tensor and result.tolist() == [13]
    with SeenByMode() as mode:
        assert scaled(a, b).tolist() == [13]
    assert mode.names[:3] == ["scaled", "mul", "add"]


def test_functions_that_need_not_be_taken_over():
    ignored = get_ignored_functions()
    assert {rushlight.Tensor.as_subclass, rushlight.Tensor.new_zeros, rushlight.zeros} <= ignored
    found = {f for functions in get_overridable_functions().values() for f in functions}
    assert not found & ignored and len(ignored) > 80
    assert resolve_name(rushlight.Tensor.new_zeros) == "torch.Tensor.new_zeros"
    assert not is_tensor_method_or_property(rushlight.Tensor.new_zeros)


class Duck:
    """No tensor, but of a class that takes functions over."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func


QUESTIONS = """is_complex is_conj is_distributed is_floating_point is_inference is_neg is_nonzero
    is_signed numel get_device hash_tensor""".split()
OTHERS = {
    "embedding_bag": 3, "feature_dropout": 3, "gru_cell": 3, "lstm_cell": 3,
    "native_batch_norm": 8, "native_group_norm": 8, "native_layer_norm": 5, "norm_except_dim": 3,
    "rnn_relu_cell": 4, "rnn_tanh_cell": 4, "slice_inverse": 2, "split_copy": 2,
    "split_with_sizes_copy": 2, "unbind_copy": 1, "unsafe_split_with_sizes": 2,
    "sym_float": 1, "sym_max": 2, "sym_not": 1,
    "nn.functional.softmax": 1, "nn.functional.log_softmax": 1, "nn.init.uniform_": 1,
    "nn.init.normal_": 1, "nn.init.constant_": 2, "nn.init.kaiming_uniform_": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", [*QUESTIONS, *OTHERS])
def test_functions_in_python_can_be_taken_over_by_any_class(name):
    function = operator.attrgetter(name)(rushlight)
    assert function(*[Duck()] * OTHERS.get(name, 1)) is function


def test_a_mode_sees_questions_about_tensors():
    seen = []

    class Names(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = rushlight.ones(2)
    with Names():
        assert rushlight.is_floating_point(x) and not rushlight.is_complex(x)
        assert rushlight.numel(x) == 2
    assert seen[0] is rushlight.is_floating_point and rushlight.numel in seen


def test_lists_of_numbers_may_hold_what_takes_over():
    x = rushlight.ones(2, 2)
    assert F.pad(x, (0, Duck())) is F.pad
    assert rushlight.zeros(2, Duck()) is rushlight.zeros
    assert x.view(2, Duck()) is rushlight.Tensor.view
    assert rushlight.sum(x, dim=[0, Duck()]) is rushlight.sum
    with pytest.raises(TypeError, match="pad"):
        F.pad(x, (0, object()))
    with rushlight._C.DisableTorchFunction(), pytest.raises(TypeError, match="pad"):
        F.pad(x, (0, Duck()))


class Seen(rushlight.Tensor):
    """Keeps what it was asked for."""

    functions: ClassVar = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.functions.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("norm", ()), ("unique", ()), ("unique_consecutive", ()), ("nonzero", ()), ("type", ()),
        ("to_dense", ()), ("to_sparse", ()), ("sparse_dim", ()), ("dense_dim", ()),
        ("stft", (4,)), ("storage", ()), ("is_nonzero", ()), ("is_pinned", ()), ("lu", ()),
        ("narrow_copy", (0, 0, 1)), ("dim_order", ()), ("unsafe_split_with_sizes", ([1],)),
        ("nonzero_static", None), ("is_distributed", ()), ("storage_type", ()),
    ],
)  # fmt: skip
def test_methods_written_in_python_are_handed_over(name, args):
    """Classes of programs saw the functions that they are made of."""
    shape = {"stft": (8,), "lu": (1, 1)}.get(name, (1,))
    tensor, Seen.functions = rushlight.ones(shape).as_subclass(Seen), []
    options = {"size": 1} if args is None else {}
    if name == "stft":
        options["return_complex"] = True
    found = getattr(tensor, name)(*(args or ()), **options)
    assert Seen.functions[0] is getattr(rushlight.Tensor, name)
    with rushlight._C.DisableTorchFunctionSubclass():
        plain = getattr(rushlight.ones(shape), name)(*(args or ()), **options)
    assert type(plain) is type(found) or isinstance(found, Seen)
    if isinstance(plain, rushlight.Tensor) and plain.layout is rushlight.strided:
        assert rushlight.equal(rushlight.view_as_real(found) if plain.is_complex() else found,
                               rushlight.view_as_real(plain) if plain.is_complex() else plain)


def test_modes_see_what_a_method_is_made_of():
    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names, tensor = [], rushlight.ones(2).as_subclass(Seen)
    with Log():
        tensor.norm()
    assert names[0] == "norm"


class Like:
    """No tensor, but it takes functions over."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("layer_norm", 2), ("batch_norm", 8), ("group_norm", 2), ("instance_norm", 9),
        ("ctc_loss", 4), ("kl_div", 2), ("alpha_dropout", 3), ("feature_alpha_dropout_", 3),
        ("binary_cross_entropy_with_logits", 2), ("cosine_embedding_loss", 3),
        ("triplet_margin_loss", 3), ("frobenius_norm", 2), ("nuclear_norm", 1), ("hsmm", 2),
        ("native_dropout", 3), ("slice_copy", 1), ("values_copy", 1), ("detach_copy", 1),
        ("batch_norm_stats", 2), ("batch_norm_elemt", 6), ("affine_grid_generator", 3),
    ],
)  # fmt: skip
def test_functions_that_call_another_are_handed_over(name, count):
    function = getattr(rushlight, name)
    assert function(Like(), *[Like()] * (count - 1)) is function


def test_gradients_of_what_is_no_tensor():
    class Graph:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, args

    one = Graph()
    function, args = rushlight.autograd.grad(one, one)
    assert function is rushlight.autograd.grad and args == ((one,), (one,))
