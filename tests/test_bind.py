"""The border of Python and C++: object life, arguments, indexing, exchange, subclasses, hooks."""

import copy
import functools
import gc
import inspect
import pickle
import threading
import weakref

import numpy as np
import pytest

import rushlight as rl
from rushlight import _C
from rushlight.autograd import Function


def leaf(*shape):
    return rl.ones(*shape, requires_grad=True)


# --- objects: identity and life


def test_the_same_tensor_is_the_same_object():
    x = leaf(3)
    y = (x * 2).sum()
    y.backward()
    assert x.grad is x.grad
    assert y.grad_fn is y.grad_fn
    assert y.grad_fn.next_functions[0][0].next_functions[0][0].variable is x
    assert x.add(1).relu_().grad_fn is not None
    assert x.detach().mul_(2) is not x


def test_python_state_survives_while_the_graph_holds_the_tensor():
    x = leaf(3)
    x.note = ["kept"]
    address, reference = id(x), weakref.ref(x)
    y = x * 2
    del x
    again = y.grad_fn.next_functions[0][0].variable
    assert again.note == ["kept"] and id(again) == address and reference() is again
    del y
    assert again.tolist() == [1, 1, 1]  # the object outlives the graph in turn
    del again
    assert reference() is None


def test_a_weak_reference_keeps_its_tensor_usable_when_the_graph_dies():
    x = leaf(2)
    reference = weakref.ref(x)
    y = x * 2
    del x
    found = reference()
    del y
    assert found.sum().item() == 2


class Slotted(rl.Tensor):
    __slots__ = ("label",)
    deleted = []

    def __new__(cls, data):
        return rl.Tensor._make_subclass(cls, data, True)

    def __del__(self):
        self.deleted.append(self.label)


def test_a_subclass_with_slots_and_a_finaliser_lives_and_dies_once():
    x = Slotted(rl.ones(2))
    x.label = "a"
    with _C.DisableTorchFunctionSubclass():
        y = x * 2
    del x
    assert Slotted.deleted == []
    assert type(y.grad_fn.next_functions[0][0].variable) is Slotted
    del y
    assert Slotted.deleted == ["a"]


def keeps_itself():
    t = rl.ones(2)
    t.self = t
    return t


def keeps_itself_by_a_hook():
    t = leaf(2)
    t.register_hook(lambda grad: t)
    t.tracked = True
    return t


def keeps_itself_by_a_context():
    y = Double.apply(leaf(2))
    y.grad_fn.output = y
    y.tracked = True
    return y


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@pytest.mark.parametrize("make", [keeps_itself, keeps_itself_by_a_hook, keeps_itself_by_a_context])
def test_the_collector_finds_cycles(make):
    reference = weakref.ref(make())
    gc.collect()
    assert reference() is None


def test_threads_share_a_leaf_and_free_their_graphs():
    x = leaf(4)
    x.note = 1

    def work():
        for _ in range(100):
            y = (x * 2).sum()
            y.note = 1
            y.backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- arguments


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.relu(1), TypeError, r"relu\(\) takes 0 positional arguments but 1 was given"),
        (lambda x: rl.relu(x, foo=1), TypeError, r"relu\(\) got an unexpected keyword .*'foo'"),
        (
            lambda x: rl.maximum(x, "a"),
            TypeError,
            r"'other' \(position 2\) must be Tensor, not str",
        ),
        (lambda x: x.permute(), TypeError, r"permute\(\) missing .*\"dims\""),
        (lambda x: x.max(1.5), TypeError, r"invalid combination of arguments - got \(float\)"),
        (lambda x: x.sum(True), TypeError, r"'dim' \(position 1\) must be tuple of ints, not bool"),
        (lambda x: rl.zeros((2, "a")), TypeError, r"tuple of ints, but holds \(int, str\)"),
        (lambda x: rl.zeros(2**70), ValueError, r"zeros\(\): argument 'size' does not fit"),
        (lambda x: rl.cat(x), TypeError, r"must be tuple of Tensors, not Tensor"),
        (lambda x: x + "a", TypeError, r"unsupported operand"),
        (lambda x: x < "a", TypeError, r"'<' not supported"),
        (lambda x: x @ 2, TypeError, r"unsupported operand"),
        (lambda x: divmod(x, 2), TypeError, r"unsupported operand"),
    ],
)
def test_wrong_arguments_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call(rl.ones(2, 3))


def test_arguments_that_torch_accepts():
    x = rl.arange(6.0).reshape(2, 3)
    assert rl.sum(x, axis=0, keepdims=True).shape == (1, 3)
    assert x.sum(rl.tensor(1)).shape == (2,)
    assert x.sum(np.int64(1)).shape == (2,)
    assert x.permute(1, 0).shape == x.permute((1, 0)).shape == x.permute(dims=[1, 0]).shape
    assert rl.add(input=x, other=2, alpha=3)[0, 0] == 6
    assert (x * np.float32(2))[0, 1] == 2
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    assert rl.zeros(2, dtype=float).dtype == rl.float64


# --- indexing, by NumPy's answer

INDICES = [
    0,
    -1,
    slice(1, None),
    slice(None, None, 2),
    slice(5, 9),
    ...,
    None,
    (),
    (0, 1),
    (slice(None), 1),
    (..., 0),
    (None, 0, ..., None),
    (0, ..., 1),
    True,
    False,
    [0, 1],
    ([0, 1], [1, 2]),
    ([0, 1], slice(None), [1, 2]),
    (slice(None), [0, 2]),
    np.array([1, 0]),
    (np.array([[0, 1], [1, 0]]), 1),
    [True, False],
    np.arange(24).reshape(2, 3, 4) > 7,
    (np.ones((2, 3), bool), slice(1, 3)),
    range(2),
    (np.int64(1), 2),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_reading_and_writing_by_index_agree_with_numpy(index):
    array = np.arange(24.0).reshape(2, 3, 4)
    x = rl.tensor(array)
    expected = array[list(index) if isinstance(index, range) else index]
    np.testing.assert_array_equal(x[index].numpy(), expected)
    assert x[index].shape == expected.shape
    for value in (-1.0, np.arange(expected.size, dtype=float).reshape(expected.shape) + 100):
        x[index] = value if isinstance(value, float) else rl.tensor(value)
        array[list(index) if isinstance(index, range) else index] = value
        np.testing.assert_array_equal(x.numpy(), array)


@pytest.mark.parametrize(
    "index", [0, slice(1, 3), (0, 1), (..., 0), None, ..., (slice(None), None, 2)]
)
def test_plain_indexing_is_a_view_that_autograd_follows(index):
    x = rl.arange(24.0).reshape(2, 3, 4)
    assert x[index]._base is x._base
    x = x.clone().requires_grad_()
    x[index].sum().backward()
    expected = np.zeros((2, 3, 4))
    expected[index] = 1
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (5, IndexError),
        ((0, 0, 0, 0), IndexError),
        (slice(None, None, -1), ValueError),
        (1.5, IndexError),
        ({}, IndexError),
        ("a", TypeError),
        (slice(0, "a"), TypeError),
        ([1.0, 2.0], IndexError),
        (2**70, ValueError),
        (np.array([7]), IndexError),
        ([True] * 3, IndexError),
    ],
)
def test_wrong_indices(index, error):
    with pytest.raises(error):
        rl.ones(2, 3, 4)[index]


def test_iteration_and_containment():
    x = rl.arange(6).reshape(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert 4 in x and 9 not in x and len(x) == 3
    with pytest.raises(TypeError, match="0-d"):
        iter(rl.tensor(1))
    with pytest.raises(TypeError, match="0-d"):
        len(rl.tensor(1))


# --- making tensors


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1, rl.int64, ()),
        (True, rl.bool, ()),
        (1.0, rl.float32, ()),
        (1j, rl.complex64, ()),
        ([], rl.float32, (0,)),
        ([[]], rl.float32, (1, 0)),
        ([1, 2.5], rl.float32, (2,)),
        ([True, 2], rl.int64, (2,)),
        (range(3), rl.int64, (3,)),
        (np.float64(1), rl.float64, ()),
        ([np.int8(1)], rl.int8, (1,)),
        (np.ones((2, 1), "f2"), rl.float16, (2, 1)),
        ([rl.tensor(1.0), 2], rl.float32, (2,)),
        ([np.ones(2), [1, 2]], rl.float64, (2, 2)),
    ],
)
def test_dtype_and_shape_are_inferred(data, dtype, shape):
    t = rl.tensor(data)
    assert (t.dtype, tuple(t.shape)) == (dtype, shape)


@pytest.mark.parametrize(
    ("data", "dtype", "error"),
    [
        ([[1], [2, 3]], None, ValueError),
        ([[1, 2], 3], None, TypeError),
        ("a", None, TypeError),
        (None, None, RuntimeError),
        ({1}, None, RuntimeError),
        (2**63, None, ValueError),
        ([300], rl.uint8, RuntimeError),
        ([float("nan")], rl.int64, RuntimeError),
        ([1j], rl.float32, TypeError),
        ([rl.ones(2)], None, ValueError),
    ],
)
def test_data_that_make_no_tensor(data, dtype, error):
    with pytest.raises(error):
        rl.tensor(data, dtype=dtype)


# --- exchange


@pytest.mark.parametrize("share", [rl.from_numpy, rl.as_tensor, rl.asarray, rl.from_dlpack])
def test_arrays_come_in_without_a_copy(share):
    array = np.arange(12.0).reshape(3, 4)[:, ::2]
    t = share(array)
    t[0, 1] = -1
    assert array[0, 1] == -1 and t.stride() == (4, 2)


@pytest.mark.parametrize("share", [lambda t: t.numpy(), np.asarray, np.from_dlpack, memoryview])
def test_tensors_go_out_without_a_copy(share):
    t = rl.arange(6.0).reshape(2, 3).t()
    array = np.asarray(share(t))
    assert array.shape == (3, 2)
    t[0, 0] = 7
    assert array[0, 0] == 7


def test_what_cannot_be_shared():
    with pytest.raises(ValueError, match="negative"):
        rl.from_numpy(np.arange(3)[::-1])
    with pytest.raises(TypeError, match="object"):
        rl.from_numpy(np.array([None]))
    with pytest.raises(ValueError, match="byte order"):
        rl.from_numpy(np.array([1], ">i4"))
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf(1).numpy()
    with pytest.raises(BufferError):
        memoryview(leaf(1))
    with pytest.raises(RuntimeError, match="makes one tensor"):
        capsule = rl.ones(1).__dlpack__()
        rl.from_dlpack(capsule)
        rl.from_dlpack(capsule)


def unaligned(dtype, count=6):
    """An array whose memory begins one byte beyond a multiple of anything."""
    size = np.dtype(dtype).itemsize
    array = np.frombuffer(bytearray(count * size + 17), dtype, count, 1)
    array[:] = np.arange(count)
    return array


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "i8", "c8", "c16", "f2"])
def test_unaligned_memory_is_not_shared(dtype):
    """torch reads it as it lies, which the language leaves undefined."""
    array = unaligned(dtype)
    expected = rl.tensor(array.tolist()).to(rl.from_numpy(array.copy()).dtype)
    copies = [rl.tensor(array), rl.as_tensor(array), rl.asarray(array), rl.tensor([array])[0]]
    target = rl.zeros_like(expected)
    target[:] = rl.as_tensor(array)
    for made in [*copies, target]:
        assert made.dtype == expected.dtype and rl.equal(made, expected)
    buffer = memoryview(array).cast("B")
    for share in (
        lambda: rl.from_numpy(array),
        lambda: rl.asarray(array, copy=False),
        lambda: rl.frombuffer(buffer, dtype=expected.dtype),
        lambda: rl.frombuffer(buffer, dtype=rl.uint8).view(expected.dtype),
        lambda: rl.zeros(0, dtype=expected.dtype).set_(
            rl.frombuffer(buffer, dtype=rl.uint8).untyped_storage()
        ),
    ):
        with pytest.raises((ValueError, RuntimeError), match="copy it first"):
            share()
    assert rl.equal(rl.frombuffer(buffer, dtype=rl.uint8).clone().view(expected.dtype), expected)


def test_bytes_are_shared_wherever_they_lie():
    array = unaligned("u1")
    rl.from_numpy(array)[0] = 9
    rl.from_dlpack(array)[1] = 8
    assert array[0] == 9 and array[1] == 8
    with pytest.raises(ValueError, match="no multiple of the 4 bytes of"):
        rl.from_dlpack(unaligned("f4"))


def test_read_only_memory_cannot_be_changed():
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        t = rl.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        t.add_(1)
    assert memoryview(t).readonly and not t.numpy().flags.writeable


# --- copies and pickles


def test_copies_keep_what_belongs_together():
    x = rl.arange(4.0)
    whole, part = pickle.loads(pickle.dumps((x, x[1:])))
    whole[1] = 9
    assert part[0] == 9
    parameter = rl.nn.Parameter(rl.ones(2))
    for other in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(other) is rl.nn.Parameter and other.requires_grad
    tagged = x.as_subclass(Tagged)
    tagged.note = ["n"]
    for other in (copy.deepcopy(tagged), pickle.loads(pickle.dumps(tagged))):
        assert type(other) is Tagged and other.note == ["n"] and other.note is not tagged.note
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(parameter * 2)


@pytest.mark.parametrize(
    "value", [rl.float32, rl.device("meta"), rl.Size([1, 2]), rl.strided, rl.channels_last, rl.add]
)
def test_constants_pickle_by_name(value):
    loaded = pickle.loads(pickle.dumps(value))
    assert loaded == value and type(loaded) is type(value)


# --- subclasses


class Tagged(rl.Tensor):
    pass


class Recorder(rl.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", func))
        return super().__torch_function__(func, types, args, kwargs or {})


def test_results_take_the_subclass():
    t = rl.ones(2, 2).as_subclass(Tagged)
    assert {type(r) for r in (t + 1, 1 - t, t[0], t.sum(), rl.add(t, 1), t.T, *t.unbind())} == {
        Tagged
    }
    assert type(t.shape) is rl.Size and type(t.max(0)).__name__ == "max"


def test_the_protocol_sees_public_functions():
    t = rl.ones(2).as_subclass(Recorder)
    Recorder.calls.clear()
    t + 1, t - 1, 2 - t, t[0], rl.add(t, 1), t.add(1), -t, t == t, t.size()
    assert Recorder.calls == [
        "add",
        "sub",
        "__rsub__",
        "__getitem__",
        "add",
        "add",
        "neg",
        "__eq__",
        "size",
    ]
    with _C.DisableTorchFunctionSubclass():
        t + 1
    assert len(Recorder.calls) == 9


class Stranger:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "taken" if func is rl.cat else NotImplemented


def test_objects_that_are_no_tensors_may_take_part():
    assert rl.cat([rl.ones(1), Stranger()]) == "taken"
    with pytest.raises(TypeError, match="no implementation found"):
        rl.stack([Stranger()])


def test_a_device_block_moves_factories():
    with rl.device("meta"):
        assert (
            rl.ones(2).is_meta and rl.tensor([1]).is_meta and not rl.ones(2, device="cpu").is_meta
        )
    assert not rl.ones(2).is_meta


# --- hooks and Functions


def test_hooks_run_in_order_and_can_be_removed():
    x = leaf(2)
    y = x * 1
    seen = []
    y.register_hook(lambda grad: seen.append("y"))
    first = x.register_hook(lambda grad: grad * 10)
    x.register_hook(lambda grad: grad + 1)
    y.grad_fn.register_prehook(lambda grads: seen.append("pre"))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("post"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    y.sum().backward(retain_graph=True)
    assert seen == ["y", "pre", "post", [11, 11]]
    first.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_an_error_in_a_hook_comes_out_of_backward():
    x = leaf(2)
    x.register_hook(lambda grad: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        x.sum().backward()


def test_hooks_of_nodes_return_tuples():
    for result in ("text", 3, [rl.ones(2)]):
        y = leaf(2) * 2
        y.grad_fn.register_hook(lambda grads, outputs, result=result: result)
        with pytest.raises(TypeError, match="expected tuple, but hook returned"):
            y.sum().backward()


class Scale(Function):
    @staticmethod
    def forward(x, factor):
        return x * factor, x > 0, "text"

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, unused, nothing):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        assert unused.sum() == 0 and nothing is None and x.shape == grad.shape
        return grad * ctx.factor, None


def test_function_with_several_outputs():
    x = leaf(2)
    scaled, positive, text = Scale.apply(x, 3)
    assert text == "text" and not positive.requires_grad
    assert scaled.grad_fn.name() == "ScaleBackward" and isinstance(scaled.grad_fn, _C.Node)
    scaled.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_function_in_place_and_identity():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    x = leaf(2)
    y = x * 1
    assert Twice.apply(y) is y
    z = Identity.apply(y)
    assert z is not y
    z.sum().backward()
    assert x.grad.tolist() == [14, 14]
    with pytest.raises(RuntimeError, match="leaf"):
        Twice.apply(x)


def test_wrong_functions_are_told_apart():
    class TooMany(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    with pytest.raises(RuntimeError, match=r"TooManyBackward .*expected 1, got 2"):
        TooMany.apply(leaf(1)).sum().backward()


def test_errors_name_the_users_line():
    x = leaf(2)
    y = x.exp()
    y.add_(1)
    with pytest.raises(
        RuntimeError, match=r"saved by exp \(line \d+ of .*test_bind.py.*changed by add_"
    ):
        y.sum().backward()


def test_memory_that_others_look_at_does_not_move():
    x = rl.zeros(2)
    view = x[:]
    with pytest.raises(RuntimeError, match="share"):
        x.resize_(100_000)
    with pytest.raises(RuntimeError, match="overflow"):
        x.resize_(2**40, 2**40)
    del view
    assert x.resize_(100_000).shape == (100_000,)


def test_functions_of_nn_functional_are_as_those_in_python():
    relu = rl.nn.functional.relu
    relu.mark = "kept"
    assert relu.mark == "kept" and vars(relu) == {"mark": "kept"}
    del relu.mark
    assert (relu.__name__, relu.__qualname__) == ("relu", "relu")
    assert str(inspect.signature(relu)) == "(input, inplace=False)"
    assert relu.__doc__.startswith("relu") and isinstance(type(relu).__doc__, str)
    assert inspect.isroutine(relu) and repr(relu).startswith("<function relu at ")
    assert pickle.loads(pickle.dumps(relu)) is relu is copy.deepcopy(relu)
    assert weakref.ref(relu)() is relu
    wrapped = functools.wraps(relu)(lambda *args: relu(*args))
    assert wrapped.__name__ == "relu" and wrapped.__wrapped__ is relu

    class Activation:
        function = relu  # as a builtin's: it is no method

    assert Activation().function(rl.tensor([-1.0, 2.0])).tolist() == [0, 2]
    with pytest.raises(TypeError, match="relu"):
        relu()
    with pytest.raises(TypeError, match="cannot create"):
        type(relu)()


def test_a_negative_length_of_who_takes_len_over_is_an_error():
    class Short(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return -1

    with pytest.raises(ValueError, match="__len__"):
        len(rl.ones(2).as_subclass(Short))
