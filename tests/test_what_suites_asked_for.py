"""Small agreements with torch that other people's programs were found to need."""

import pickle

import pytest

import rushlight


@pytest.mark.parametrize("name", ["cdist", "from_dlpack", "set_default_dtype"])
def test_functions_that_torch_writes_in_python_take_attributes(name):
    function = getattr(rushlight, name)
    function.marked = True
    assert function.marked and pickle.loads(pickle.dumps(function)) is function
    del function.marked
    assert function.__doc__


def test_set_default_dtype_takes_its_argument_by_name():
    try:
        rushlight.set_default_dtype(d=rushlight.float64)
        assert rushlight.ones(1).dtype is rushlight.float64
    finally:
        rushlight.set_default_dtype(rushlight.float32)
    for bad in ({}, {"dtype": rushlight.float64}, {"d": 3}):
        with pytest.raises(TypeError):
            rushlight.set_default_dtype(**bad)
    with pytest.raises(TypeError, match="one argument"):
        rushlight.set_default_dtype(rushlight.float32, rushlight.float64)


@pytest.mark.parametrize("dtype", [rushlight.bool, rushlight.uint8, rushlight.int16])
def test_sum_to_no_dims_is_a_sum(dtype):
    x = rushlight.tensor(1, dtype=dtype)
    total = x.sum_to_size(())
    assert total.dtype is rushlight.int64 and total.item() == 1
    assert rushlight.ones(2, 3, dtype=dtype).sum_to_size(1, 3).tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("shape", "size"), [((2,), (3,)), ((1, 3), (2, 3)), ((), (1,)), ((3,), (1, 3))]
)
def test_sum_to_a_size_that_does_not_broadcast_raises(shape, size):
    with pytest.raises(RuntimeError, match="sum_to_size"):
        rushlight.ones(shape).sum_to_size(size)


def test_tensors_without_elements_are_pickled():
    x = rushlight.empty_strided((2, 3), (1, 2), dtype=rushlight.float64, device="meta")
    for tensor in (x, x[1:, 1:], rushlight.empty(0, 3, device="meta").requires_grad_()):
        again = pickle.loads(pickle.dumps(tensor))
        assert again.is_meta and again.dtype is tensor.dtype
        assert again.shape == tensor.shape and again.stride() == tensor.stride()
        assert again.storage_offset() == tensor.storage_offset()
        assert again.requires_grad == tensor.requires_grad


class Wrapped(rushlight.Tensor):
    """A tensor that holds another one."""

    @staticmethod
    def __new__(cls, held):
        made = rushlight.Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [a.held if isinstance(a, Wrapped) else a for a in args]
        return func(*args, **(kwargs or {}))


def test_tensors_that_wrap_others_are_pickled():
    x = Wrapped(rushlight.arange(3.0))
    again = pickle.loads(pickle.dumps(x))
    assert type(again) is Wrapped and again.held.equal(x.held)
    assert again.device == x.device and (again + 1).equal(x.held + 1)


def test_storages_say_the_size_that_torchs_do():
    import sys

    assert sys.getsizeof(rushlight.rand(10).untyped_storage()) == 104


def test_a_traced_program_reads_what_no_input_has_a_part_in():
    def over_all_but_the_first(x):
        dims = rushlight.arange(1, len(x.shape)).tolist()
        if (rushlight.tensor([2, 3]) > 2).any():
            x = x + int(rushlight.tensor([1, 2])[1])
        return x.mean(dims)

    traced = rushlight.jit.trace(over_all_but_the_first, rushlight.ones(2, 3, 4))
    x = rushlight.arange(24.0).reshape(2, 3, 4)
    assert traced(x).equal(over_all_but_the_first(x))


@pytest.mark.parametrize("kind", ["written", "drawn", "size"])
def test_a_traced_program_warns_when_it_reads_what_may_change(kind):
    def program(x):
        if kind == "written":
            seen = rushlight.zeros(2)
            seen.view(2).copy_(x[:2])
        elif kind == "drawn":
            seen = rushlight.rand(2)
        else:
            seen = rushlight.arange(x.shape[0])
        return x + 1 if seen.sum() > 0 else x

    with pytest.warns(rushlight.jit.TracerWarning, match="branches on the value"):
        rushlight.jit.trace(program, rushlight.ones(3), check_trace=False)


@pytest.mark.parametrize(
    "call, same",
    [
        ("amax(x, None)", "amax(x)"), ("amin(x, dim=None, keepdim=True)", "amin(x, (), True)"),
        ("roll(x, 1, None)", "roll(x, 1)"), ("roll(x, shifts=2, dims=None)", "roll(x, 2)"),
    ],
)  # fmt: skip
def test_none_for_an_empty_list(call, same):
    space = {**vars(rushlight), "x": rushlight.arange(6.0).reshape(2, 3), "roll": rushlight.roll}
    space.update(amax=rushlight.amax, amin=rushlight.amin)
    assert eval(call, space).equal(eval(same, space))
    compiled = rushlight.compile(lambda x: eval(call, {**space, "x": x}))
    assert compiled(space["x"]).equal(eval(same, space))


class _Holder:
    """Holds what a layer's instance holds: as who makes functions of layers has it."""

    def __init__(self, layer):
        vars(self).update(vars(layer))
        vars(self).update({**layer._parameters, **layer._buffers, **layer._modules})


_N1, _N2, _N3 = "(2, 4, 8)", "(2, 4, 8, 8)", "(2, 4, 8, 8, 8)"
_LAYERS = [
    *((f"{name}{d}d({options})", shape, needs)
      for d, shape in ((1, _N1), (2, _N2), (3, _N3))
      for name, options, needs in (
          ("Conv", "4, 4, 3", "_conv_forward"), ("ConvTranspose", "4, 4, 3", "_output_padding"),
          ("MaxPool", "2", ""), ("AvgPool", "2", ""), ("LPPool", "2, 2", ""),
          ("AdaptiveMaxPool", "2", ""), ("AdaptiveAvgPool", "2", ""), ("ReflectionPad", "1", ""),
          ("ReplicationPad", "1", ""), ("CircularPad", "1", ""), ("ConstantPad", "1, 0.0", ""))),
    ("FractionalMaxPool2d(2, output_size=2)", _N2, ""),
    ("FractionalMaxPool3d(2, output_size=2)", _N3, ""),
    ("RNNCell(8, 3)", "(4, 8)", ""), ("LSTMCell(8, 3)", "(4, 8)", ""),
    ("GRUCell(8, 3)", "(4, 8)", ""), ("Linear(8, 3)", _N1, ""), ("LayerNorm(8)", _N1, ""),
    ("GroupNorm(2, 4)", _N1, ""), ("Embedding(5, 3)", "(2,)", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shape", "needs"), _LAYERS)
def test_forward_reads_what_an_instance_holds(text, shape, needs):
    """Beside the methods that torch's layer calls, which `needs` names."""
    layer = eval(f"rushlight.nn.{text}")
    x = rushlight.rand(*eval(shape))
    x = x.long() if text.startswith("Embedding") else x
    holder = _Holder(layer)
    if needs:
        setattr(holder, needs, getattr(type(layer), needs).__get__(holder))
    rushlight.manual_seed(0)
    ours = type(layer).forward(holder, x)
    rushlight.manual_seed(0)
    expected = layer(x)
    pairs = zip(ours, expected) if isinstance(ours, tuple) else [(ours, expected)]
    assert all(a.equal(b) for a, b in pairs)


def test_conjugate_transposes_of_few_dims():
    number, line = rushlight.tensor(1 + 2j), rushlight.tensor([1 + 2j, 3.0])
    with pytest.warns(UserWarning, match="0-d tensor is deprecated"):
        assert number.mT.item() == 1 + 2j and number.mH.item() == 1 - 2j
    assert number.adjoint().item() == 1 - 2j
    for call in (line.adjoint, lambda: rushlight.adjoint(line), lambda: line.mH, lambda: line.mT):
        with pytest.raises(RuntimeError, match="only supported on matrices.*1-D tensor"):
            call()


def test_memory_formats_of_resized_tensors():
    like = rushlight.zeros(2, 3, 4, 5).contiguous(memory_format=rushlight.channels_last)
    for template in (like, like.contiguous(), rushlight.zeros(3, 4).t()):
        x = rushlight.zeros(1).resize_as_(template, memory_format=rushlight.preserve_format)
        last = template is like
        assert x.shape == template.shape and x.is_contiguous() is not last
        assert not last or x.is_contiguous(memory_format=rushlight.channels_last)
    with pytest.raises(RuntimeError, match="preserve_format"):
        rushlight.zeros(1).resize_(2, memory_format=rushlight.preserve_format)
    assert like.contiguous().is_contiguous(memory_format=rushlight.preserve_format)


def test_batch_norm_wants_an_eps_that_keeps_it_finite():
    x = rushlight.arange(12.0).reshape(4, 3)
    mean, variance = rushlight.zeros(3), rushlight.ones(3)
    norm = rushlight.nn.functional.batch_norm
    assert norm(x, mean, variance, eps=0.0).equal(x)
    for eps, training in ((0.0, True), (-1e-5, True), (-1e-5, False)):
        with pytest.raises(ValueError, match="batch_norm eps must be positive during training"):
            norm(x, mean, variance, training=training, eps=eps)
    with pytest.raises(ValueError, match="eps"):
        rushlight.nn.BatchNorm1d(3, eps=0)(x)
    rows = rushlight.nn.InstanceNorm1d(2, eps=0)(x.reshape(2, 2, 3))
    assert rows.mean().abs() < 1e-6 and abs(rows.var(correction=0) - 1) < 1e-5


def test_pooling_of_one_volume_keeps_channels_last():
    x = rushlight.randn(1, 3, 4, 4, 4).contiguous(memory_format=rushlight.channels_last_3d)[0]
    y = rushlight.nn.functional.max_pool3d(x, 2)
    assert y.stride() == (1, 12, 6, 3)
    assert y.equal(rushlight.nn.functional.max_pool3d(x.contiguous(), 2))
    assert rushlight.nn.functional.avg_pool3d(x, 2).is_contiguous()


@pytest.mark.parametrize("name", ["any", "all"])
def test_truth_values_of_bytes_fit_into_bools(name):
    x, function = (
        rushlight.tensor([[0, 2], [0, 0]], dtype=rushlight.uint8),
        getattr(rushlight, name),
    )
    for options in ({}, {"dim": 1}, {"dim": (0, 1)}, {"keepdim": True}):
        out = rushlight.zeros(function(x, **options).shape, dtype=rushlight.bool)
        assert function(x, out=out, **options) is out
        assert out.equal(function(x.bool(), **options))
    with pytest.raises(RuntimeError, match="only supports bool tensor"):
        function(x, out=rushlight.zeros(()))
    with pytest.raises(RuntimeError, match="cast"):
        rushlight.ones(2, dtype=rushlight.bool).cumsum_(0)


def test_priorities_of_streams():
    assert rushlight.cuda.Stream.priority_range() == (0, -1)
    if not rushlight.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            rushlight.cuda._get_rng_state_offset()
        return
    rushlight.cuda._set_rng_state_offset(8)
    assert rushlight.cuda._get_rng_state_offset() == 8


def test_metadata_of_tensors_are_asserted():
    x = rushlight.ones(2, 3)
    rushlight._assert_tensor_metadata(x, (2, 3), [3, 1], rushlight.float32, device="cpu")
    rushlight._assert_tensor_metadata(x)
    wrong = {"size": [2], "stride": [1, 2], "dtype": rushlight.int32, "device": "meta"}
    for name, value in wrong.items():
        with pytest.raises(RuntimeError, match="mismatch! Expected: .* Got: "):
            rushlight._assert_tensor_metadata(x, **{name: value})


def test_adaptive_max_pooling_needs_channels():
    for dims in (1, 2, 3):
        pool = getattr(rushlight.nn, f"AdaptiveMaxPool{dims}d")(2)
        assert pool(rushlight.ones(0, 3, *[4] * dims)).shape[:2] == (0, 3)
        with pytest.raises(RuntimeError, match="non-zero size for non-batch"):
            pool(rushlight.ones(1, 0, *[4] * dims))


class Labelled(rushlight.Tensor):
    """A tensor that is told apart."""


@pytest.mark.parametrize("kind", [rushlight.Tensor, Labelled, rushlight.FloatTensor])
def test_a_tensor_made_over_another_passes_its_gradient(kind):
    x = rushlight.arange(3.0).requires_grad_()
    for made in (kind(x), kind(x * 2), x.new(x)):
        assert made.requires_grad and not made.is_leaf and made._is_view()
    (gradient,) = rushlight.autograd.grad((kind(x) ** 2).sum(), x)
    assert gradient.tolist() == [0, 2, 4]
    made = kind(x)
    (by_itself,) = rushlight.autograd.grad((made * 3).sum(), made)
    assert by_itself.tolist() == [3, 3, 3]


def test_a_tensor_made_over_another_counts_its_changes():
    x = rushlight.ones(3)
    made, weight = rushlight.Tensor(x), rushlight.ones(3, requires_grad=True)
    product = x * weight
    made.add_(1)
    assert x.tolist() == [2, 2, 2] and made._is_view()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_subclass_made_over_its_kind_keeps_second_derivatives():
    x = Labelled(rushlight.ones(3, requires_grad=True))
    (first,) = rushlight.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = rushlight.autograd.grad(first.sum(), x)
    assert isinstance(second, Labelled) and second.tolist() == [6, 6, 6]
