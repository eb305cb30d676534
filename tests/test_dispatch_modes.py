"""`__torch_dispatch__` of modes and of classes of tensors."""

import copy
import io
import pickle

import pytest

import rushlight
from rushlight import Tensor, nn
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import (
    BaseTorchDispatchMode,
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    is_in_torch_dispatch_mode,
    return_and_correct_aliasing,
)

F = nn.functional
aten = rushlight.ops.aten


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


class Wrapper(Tensor):
    """A tensor around another; `seen` has the operations on such tensors."""

    seen = []
    __torch_function__ = rushlight._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem):
        made = Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            dtype=elem.dtype,
            device=elem.device,
            requires_grad=elem.requires_grad,
        )
        made.elem = elem.detach() if elem.requires_grad else elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Wrapper.seen.append(str(func).removeprefix("aten."))

        def unwrap(t):
            return t.elem if isinstance(t, cls) else t

        def wrap(t):
            return cls(t) if isinstance(t, Tensor) else t

        args, kwargs = pytree.tree_map(unwrap, (args, kwargs or {}))
        return pytree.tree_map(wrap, func(*args, **kwargs))


@pytest.fixture(autouse=True)
def _nothing_seen():
    Wrapper.seen = []


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))


def test_a_mode_sees_operations_of_aten_forward_and_backward():
    model, x = network(), rushlight.randn(2, 4)
    with Log() as log:
        loss = F.cross_entropy(model(x), rushlight.tensor([0, 1]))
        forward, log.names = log.names, []
        loss.backward()
    assert forward == [
        "t.default", "addmm.default", "relu.default", "native_layer_norm.default", "t.default",
        "addmm.default", "lift_fresh.default", "_log_softmax.default", "nll_loss_forward.default",
    ]  # fmt: skip
    assert log.names[:3] == [
        "ones_like.default", "nll_loss_backward.default", "_log_softmax_backward_data.default",
    ]  # fmt: skip
    assert {"mm.default", "sum.dim_IntList", "threshold_backward.default"} <= set(log.names)


@pytest.mark.parametrize("needs", [False, True])
def test_the_gradient_of_a_convolution_is_called_as_torch_calls_it(needs):
    class Kept(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is rushlight.ops.aten.convolution_backward.default:
                seen.append([a.shape if isinstance(a, rushlight.Tensor) else a for a in args])
            return func(*args, **(kwargs or {}))

    layer, seen = nn.Conv2d(3, 8, 3, stride=2), []
    x = rushlight.randn(1, 3, 9, 9, requires_grad=needs)
    with Kept():
        layer(x).sum().backward()
    tensors, rest = seen[0][:3], seen[0][3:]
    assert tensors == [(1, 8, 4, 4), (1, 3, 9, 9), (8, 3, 3, 3)]
    assert rest == [[8], [2, 2], [0, 0], [1, 1], False, [0, 0], 1, [needs, True, True]]
    with_mode = layer.weight.grad.clone()
    layer.weight.grad = None
    layer(x).sum().backward()
    rushlight.testing.assert_close(layer.weight.grad, with_mode)


def test_gradients_in_a_mode_are_those_outside():
    rushlight.manual_seed(0)
    model, x = network(), rushlight.randn(2, 4)

    def gradients():
        model.zero_grad()
        y = model(x)
        z = (y.exp().sum(1, keepdim=True) * y / 3 - y**2).sin().mean(0)
        part = z[1:].clone()
        part[0] += 1
        (rushlight.stack([part, part * 2]).tanh().sum() + F.gelu(y).cumsum(0).std()).backward()
        return [p.grad.clone() for p in model.parameters()]

    expected = gradients()
    with Log():
        found = gradients()
    for a, b in zip(expected, found):
        rushlight.testing.assert_close(a, b)


def test_second_derivatives_in_a_mode():
    x = rushlight.randn(3, dtype=rushlight.float64, requires_grad=True)

    def second():
        (g,) = rushlight.autograd.grad((x.sin() * F.silu(x)).sum(), x, create_graph=True)
        return rushlight.autograd.grad(g.sum(), x)[0]

    expected = second()
    with Log() as log:
        rushlight.testing.assert_close(second(), expected)
    assert "silu_backward.default" in log.names


def test_modes_nest_and_end():
    with Log() as outer:
        with Log() as inner:
            assert _get_current_dispatch_mode() is inner
            y = rushlight.ones(2).softmax(0) + 1
        rushlight.exp(y)
        with _disable_current_modes():
            rushlight.log(y)
    assert inner.names == ["ones.default", "_softmax.default", "add.Tensor"]
    assert outer.names == [*inner.names, "exp.default"]
    assert not is_in_torch_dispatch_mode()
    with pytest.raises(ZeroDivisionError), Log():
        raise ZeroDivisionError
    assert not is_in_torch_dispatch_mode() and rushlight._C._len_torch_function_stack() == 0


def test_a_mode_answers_itself():
    class Twice(BaseTorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is aten.add.Tensor else result

    x = rushlight.ones(2, requires_grad=True)
    with Twice():
        y = x + 1
    assert y.tolist() == [4, 4]
    y.sum().backward()
    assert x.grad.tolist() == [1, 1], "autograd knows the addition alone, as in torch"


def test_function_modes_come_first():
    seen = []

    class Function(rushlight.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Function(), Log() as log:
        F.linear(rushlight.ones(1, 2), rushlight.ones(3, 2))
    assert seen == ["ones", "ones", "linear"]
    assert log.names[2:] == ["t.default", "mm.default"]


def test_operations_in_place_and_through_views_stay_right():
    x = rushlight.ones(3, requires_grad=True)
    with Log() as log:
        y = x * 2
        y[0] = 5
        y[1:].mul_(3)
        y.sum().backward()
    assert y.tolist() == [5, 6, 6] and x.grad.tolist() == [0, 6, 6]
    assert "select.int" in log.names and "mul_.Tensor" in log.names


def test_a_handler_must_answer():
    class Declines(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="ones.default.*Declines"), Declines():
        rushlight.ones(2) + 1
    with pytest.raises(NotImplementedError, match="no __torch_dispatch__"), TorchDispatchMode():
        rushlight.ones(2)
    with pytest.raises(NotImplementedError, match="_dispatch_key"):
        TorchDispatchMode("Meta")


def test_wrappers_are_computed_by_their_class():
    x, y = Wrapper(rushlight.ones(2, 3)), rushlight.full((2, 3), 2.0)
    z = (x + y).sum(1)
    assert type(z) is Wrapper and z.elem.tolist() == [9, 9]
    assert Wrapper.seen == ["add.Tensor", "sum.dim_IntList"]
    assert x.shape == (2, 3) and x.device.type == "cpu" and x.dtype is rushlight.float32
    assert x[0].elem.tolist() == [1, 1, 1] and "select.int" in Wrapper.seen


def test_wrappers_among_the_indices_of_a_plain_tensor():
    rows, x = Wrapper(rushlight.tensor([2, 0])), rushlight.arange(9.0).view(3, 3)
    for index in (rows, (rows, slice(1, None)), (rows, rows), (slice(None), rows, None)):
        plain = tuple(getattr(i, "elem", i) for i in index) if index is not rows else rows.elem
        found = x[index]
        assert type(found) is Wrapper and rushlight.equal(found.elem, x[plain])
    assert Wrapper.seen.count("index.Tensor") == 4
    assert x[[rows, rows]].elem.tolist() == [8, 0]
    x[rows] = -1.0
    x[rows, 1] = rushlight.tensor([5.0, 6.0])
    assert x.tolist() == [[-1, 6, -1], [3, 4, 5], [-1, 5, -1]]
    assert Wrapper.seen[-2:] == ["index_put_.default"] * 2


def test_wrappers_have_gradients():
    w = Wrapper(rushlight.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True))
    x = rushlight.tensor([[1.0, 0.5]])
    assert w.requires_grad and w.is_leaf
    F.linear(x, w).relu().sum().backward()
    assert type(w.grad) is Wrapper and w.grad.elem.tolist() == [[1.0, 0.5], [1.0, 0.5]]
    assert "mm.default" in Wrapper.seen and "threshold_backward.default" in Wrapper.seen
    w.grad = None
    F.linear(x, w).sum().backward()
    assert w.grad.elem.tolist() == [[1.0, 0.5], [1.0, 0.5]]


LOSSES = {
    "one use": lambda t: t.exp().sum(),
    "several": lambda t: (t.exp() * t + t).sum(),
    "chain": lambda t: ((t * 2).sin().cos() @ t).tanh().mean(),
    "without a formula": lambda t: F.gelu(t).sum() + t.logsumexp(0).sum(),
    "several results": lambda t: (
        t.sort().values[0].square().sum() + t.var() * t.max(1).values.sum()
    ),
    "layer norm": lambda t: F.layer_norm(t, (2,)).pow(3).sum(),
    "in place": lambda t: (t * 2).add_(t).mul_(t).sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_of_wrappers_are_wrappers(loss):
    data = rushlight.tensor([[1.0, 0.2], [0.3, 0.5]], dtype=rushlight.float64)
    plain, w = data.clone().requires_grad_(), Wrapper(data.clone().requires_grad_())
    for _ in range(2):  # the second is added to the first
        LOSSES[loss](plain).backward()
        LOSSES[loss](w).backward()
        assert type(w.grad) is Wrapper and rushlight.allclose(w.grad.elem, plain.grad)
    if loss == "in place":
        with pytest.raises(NotImplementedError, match="mul.*no second derivative.*in place"):
            rushlight.autograd.grad(LOSSES[loss](w), w, create_graph=True)
        return
    second = {}
    for t in (plain, w):
        (first,) = rushlight.autograd.grad(LOSSES[loss](t), t, create_graph=True)
        (second[type(t)],) = rushlight.autograd.grad((first * first).sum(), t)
    assert rushlight.allclose(second[Wrapper].elem, second[Tensor])


class TimesTwo(rushlight.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 2


def test_wrappers_through_functions_hooks_and_retained_gradients():
    w, seen = Wrapper(rushlight.tensor([1.0, 2.0], requires_grad=True)), []
    y = w * 2
    y.retain_grad()
    y.register_hook(lambda grad: seen.append(type(grad)) or grad * 3)
    TimesTwo.apply(y).sum().backward()
    assert seen == [Wrapper] and type(y.grad) is Wrapper
    assert w.grad.elem.tolist() == [24, 48]


def test_a_plain_tensor_gets_a_wrapper_for_a_gradient():
    x, w = rushlight.ones(2, requires_grad=True), Wrapper(rushlight.tensor([2.0, 3.0]))
    for times in (1, 2):
        (x * w).sum().backward()
        assert type(x.grad) is Wrapper and x.grad.elem.tolist() == [2 * times, 3 * times]
    w = Wrapper(rushlight.ones(2, requires_grad=True))
    (w * 3).backward(rushlight.ones(2))
    assert type(w.grad) is Tensor and w.grad.tolist() == [3, 3]  # of plain tensors


def test_wrappers_that_are_made_like_others_need_gradients_where_that_is_asked_for():
    w = Wrapper(rushlight.ones(2))
    for made in (
        rushlight.zeros_like(w, requires_grad=True),
        w.new_ones(3, requires_grad=True),
        rushlight.randn_like(w, requires_grad=True),
    ):
        assert type(made) is Wrapper and made.requires_grad and made.is_leaf
    _, product = rushlight.autograd.functional.hvp(lambda x: x.exp().sum(), w, w)
    assert type(product) is Wrapper and rushlight.allclose(product.elem, w.elem.exp())


def test_a_model_with_wrappers_among_its_weights_learns():
    rushlight.manual_seed(0)
    model = rushlight.nn.Sequential(
        rushlight.nn.Linear(3, 4), rushlight.nn.ReLU(), rushlight.nn.Linear(4, 2)
    )
    for layer in (model[0], model[2]):
        layer.weight = rushlight.nn.Parameter(Wrapper(layer.weight.detach()))
    optimizer = rushlight.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    x, losses = rushlight.rand(8, 3), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[4] < losses[0] and type(model[0].weight) is Wrapper


def test_a_view_of_a_wrapper_is_not_changed_in_place_where_gradients_are_needed():
    w = Wrapper(rushlight.ones(2, 2, requires_grad=True)) * 2
    with pytest.raises(NotImplementedError, match="mul_.*changes a view of a Wrapper in place"):
        w.view(4).mul_(3)


def test_an_operation_in_place_returns_its_argument():
    x = Wrapper(rushlight.ones(2))
    assert x.add_(1) is x and x.elem.tolist() == [2, 2]


def test_wrappers_are_shown_saved_and_copied():
    x = Wrapper(rushlight.tensor([1.0, 2.0]))
    assert Tensor.__repr__(x, tensor_contents="one, two") == "Wrapper(one, two)"
    assert rushlight.ones(2).__repr__(tensor_contents="...") == "tensor(...)"
    with pytest.raises(TypeError, match="__repr__: takes one argument, tensor_contents"):
        rushlight.ones(2).__repr__("...")
    for value in (x, rushlight.nn.Parameter(x)):
        file = io.BytesIO()
        rushlight.save(value, file)
        for weights_only in (True, False):
            file.seek(0)
            with rushlight.serialization.safe_globals([Wrapper]):
                back = rushlight.load(file, weights_only=weights_only)
            assert type(back) is Wrapper and back.elem.tolist() == [1, 2]
            assert back.requires_grad == value.requires_grad
            assert isinstance(back, rushlight.nn.Parameter) == (value is not x)
        again = pickle.loads(pickle.dumps(value))
        assert type(again) is Wrapper and again.elem.tolist() == [1, 2]
    for name in ("tolist", "numpy"):
        with pytest.raises(RuntimeError, match=f"{name}.* is not supported for tensor subclasses"):
            getattr(x, name)()


def test_a_mode_comes_before_wrappers():
    with Log() as log:
        Wrapper(rushlight.ones(2)).exp()
    assert log.names == ["ones.default", "exp.default"], "what its class calls is no more seen"
    assert Wrapper.seen == ["exp.default"]


def test_what_needs_a_class_says_so():
    with pytest.raises(RuntimeError, match="no __torch_dispatch__"):
        Tensor._make_wrapper_subclass(Tensor, (2,))
    x = Wrapper(rushlight.ones(2))
    assert return_and_correct_aliasing(aten.add_.Tensor, (x,), {}, None) is x
    assert return_and_correct_aliasing(aten.add.Tensor, (x,), {}, 3) == 3


def test_it_costs_nothing_when_off():
    import subprocess
    import sys

    code = (
        "import sys, rushlight; rushlight.ones(2) + 1; print('rushlight._dispatch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_operation_in_place_returns_the_tensor_it_wrote():
    plain = rushlight.zeros(2)
    assert plain.add_(Wrapper(rushlight.ones(2))) is plain


class Named(Tensor):
    """A tensor with elements of its own, an attribute, and another in a slot."""

    __slots__ = ("name",)

    def __new__(cls, data, name="", unit=""):
        made = Tensor._make_subclass(cls, data)
        made.name, made.unit = name, unit
        return made


@pytest.mark.parametrize("is_parameter", [False, True])
def test_attributes_of_a_class_are_saved_also_those_in_slots(is_parameter):
    x = Named(rushlight.tensor([1.0, 2.0]), "length", "m")
    x = rushlight.nn.Parameter(x) if is_parameter else x
    x.name, x.unit = "length", "m"
    file = io.BytesIO()
    rushlight.save(x, file)
    copies = [copy.deepcopy(x), pickle.loads(pickle.dumps(x))]
    for weights_only in (True, False):
        file.seek(0)
        with rushlight.serialization.safe_globals([Named]):
            copies.append(rushlight.load(file, weights_only=weights_only))
    for again in copies:
        assert type(again) is Named and again.tolist() == [1, 2]
        assert (again.name, again.unit) == ("length", "m")


def test_a_class_leaves_the_operation_to_its_base():
    seen = []

    class Watched(Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = rushlight.tensor([1.0, 2.0])
    watched = Tensor._make_subclass(Watched, x)
    assert rushlight.equal(watched + watched, x + x) and seen == [aten.add.Tensor]
    assert nn.Parameter.__torch_dispatch__ is Tensor.__torch_dispatch__


def test_the_backward_of_an_operation_without_a_formula_has_a_packet():
    seen = []

    class Packets(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func._overloadpacket))
            return func(*args, **(kwargs or {}))

    with Packets():
        rushlight.ones(2, requires_grad=True).acos().sum().backward()
    assert "aten.acos_backward" in seen


def test_files_hold_no_notes_of_ours_beside_the_slots_of_a_wrapper():
    class Slotted(Wrapper):
        __slots__ = ("label",)

    w = Slotted(rushlight.ones(2))
    w.label = "x"
    _, (_, _, _, (own, slots)) = w.__reduce_ex__(2)
    assert set(own) == {"elem"} and slots == {"label": "x"}


def test_operations_have_schemas():
    schemas = {}

    class Schemas(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            schemas[str(func)] = func._schema
            return func(*args, **(kwargs or {}))

    x = rushlight.rand(2, 2)
    with Schemas():
        x.clone().mul_(2).t().softmax(1).sum(1)
        F.linear(x, x, x[0])
    texts = {name: str(schema) for name, schema in schemas.items()}
    expected = "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
    assert texts["aten.mul_.Tensor"] == expected
    assert texts["aten.t.default"] == "aten::t(Tensor(a) self) -> Tensor(a)"
    assert texts["aten._softmax.default"].startswith("aten::_softmax(Tensor self, int dim, bool")
    changing = {name for name, schema in schemas.items() if schema.is_mutable}
    assert changing == {"aten.mul_.Tensor"}
    assert [a.name for a in schemas["aten.addmm.default"].arguments[:3]] == ["self", "mat1", "mat2"]
    assert aten.add.default._schema.name == "aten::add"


def test_results_go_into_several_tensors():
    x = rushlight.rand(3, 4)
    low, high = rushlight.empty(4), rushlight.empty(0)
    with Log() as log:
        found = rushlight.aminmax(x, dim=0, out=(low, high))
        total = rushlight.add(x, 1, out=rushlight.empty(0))
    assert rushlight.equal(low, x.amin(0)) and rushlight.equal(high, x.amax(0))
    assert found.min.data_ptr() == low.data_ptr() and rushlight.equal(total, x + 1)
    assert any("aminmax" in name for name in log.names)


class Counted(Tensor):
    """A tensor around another that takes functions over first, and hands them on to dispatch."""

    functions, operations = [], []

    @staticmethod
    def __new__(cls, elem):
        return Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)

    def __init__(self, elem):
        self.elem = elem

    def __tensor_flatten__(self):
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Counted(parts["elem"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Counted.functions.append(func.__name__)
        with rushlight._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Counted.operations.append(str(func).removeprefix("aten."))
        args, kwargs = pytree.tree_map_only(cls, lambda t: t.elem, (args, kwargs or {}))
        result = func(*args, **kwargs)
        return Counted(result) if isinstance(result, Tensor) else result


def test_a_class_that_takes_over_functions_too():
    x = Counted(rushlight.arange(3.0))
    Counted.functions.clear(), Counted.operations.clear()
    y = x + 1
    assert type(y) is Counted and y.elem.tolist() == [1, 2, 3]
    assert len(Counted.functions) == 1 and Counted.operations == ["add.Tensor"]
    with rushlight._C.DisableTorchFunctionSubclass():
        z = rushlight.exp(y)
    assert type(z) is Counted and len(Counted.functions) == 1
    assert Counted.operations == ["add.Tensor", "exp.default"]
    parameter = nn.Parameter(x)
    assert type(parameter) is Counted and isinstance(parameter, nn.Parameter)


def test_a_module_whose_parameters_are_wrappers_is_converted():
    module = nn.Linear(2, 2, bias=False)
    module.weight = nn.Parameter(Counted(rushlight.eye(2)))
    before = module.weight
    module.to(rushlight.float64)
    assert module.weight is before and type(module.weight) is Counted
    assert module.weight.elem.dtype is rushlight.float64


def test_own_kinds_of_tensors_where_functions_of_subclasses_are_off():
    with rushlight._C.DisableTorchFunctionSubclass():
        small = rushlight.ones(2).to(rushlight.float8_e4m3fn)
        assert small.float().tolist() == [1, 1]
        sparse = rushlight.eye(2).to_sparse()
        assert (sparse + sparse).to_dense().tolist() == [[2, 0], [0, 2]]
        nested = rushlight.nested.nested_tensor([rushlight.ones(1), rushlight.ones(2)])
        assert [part.tolist() for part in (nested * 2).unbind()] == [[2], [2, 2]]
    with rushlight._C.DisableTorchFunction():
        assert rushlight.ones(2).sum() == 2


def test_a_view_made_under_a_mode_gets_a_history_later():
    x = rushlight.arange(3.0, requires_grad=True)
    with Log():
        room = rushlight.zeros(4)
        room[1:].copy_(x)
        F.pad(x[None], (1, 0), mode="circular").mul(rushlight.arange(4.0)).sum().backward()
    assert room.requires_grad and x.grad.tolist() == [1.0, 2.0, 3.0]
    with Log(), rushlight.no_grad():
        view = rushlight.zeros(4)[1:]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.copy_(x)


def test_batch_norm_under_a_mode_updates_its_statistics_once():
    class Passes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    plain, observed = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    x = rushlight.arange(15.0).reshape(5, 3).requires_grad_()
    plain(x).square().sum().backward()
    with Passes():
        observed(x).square().sum().backward()
    assert observed.running_mean.equal(plain.running_mean)
    assert observed.running_var.equal(plain.running_var)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.BatchNorm1d(3),
        lambda: nn.SyncBatchNorm(3),
        lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        lambda: nn.RReLU(0.1, 0.4),
        lambda: nn.Dropout(0.5),
        lambda: nn.AlphaDropout(0.5),
        lambda: nn.LSTM(4, 3, 2, dropout=0.5),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_what_draws_or_counts_is_not_computed_again(make, training):
    """The gradients of a mode leave statistics and the generator as a plain backward pass does."""
    rushlight.manual_seed(0)
    layer, x = make().double(), rushlight.randn(2, 3, 4, dtype=rushlight.float64)
    other = copy.deepcopy(layer)

    def outcome(layer):
        layer.train(training)
        rushlight.manual_seed(3)
        leaf = x.clone().requires_grad_()
        for _ in range(2):  # the second pass changes what the first one's backward may look at
            made = [layer(leaf), layer(leaf * 2)]
            made = [m[0] if isinstance(m, tuple) else m for m in made]
            (made[0].sin() * made[1]).sum().backward()
        grads = [p.grad for p in layer.parameters()]
        return [leaf.grad, *grads, *layer.buffers(), rushlight.rand(2)]

    expected = outcome(layer)
    with Log():
        found = outcome(other)
    rushlight.testing.assert_close(found, expected)


def test_what_random_normals_depend_on_has_zero_gradients():
    mean = rushlight.ones(3, requires_grad=True)
    with Log():
        rushlight.manual_seed(0)
        rushlight.normal(mean, mean * 2).sum().backward()
        state = rushlight.get_rng_state()
    rushlight.manual_seed(0)
    rushlight.normal(mean.detach(), mean.detach() * 2)
    assert mean.grad.tolist() == [0, 0, 0] and state.equal(rushlight.get_rng_state())


@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.bfloat16])
@pytest.mark.parametrize("name", ["rrelu_with_noise", "rrelu_with_noise_"])
def test_rrelu_writes_its_noise(name, dtype):
    x = rushlight.tensor([-1.0, 2, -3, 0, 4], dtype=dtype)
    noise = rushlight.full_like(x, 7)
    rushlight.manual_seed(0)
    found = getattr(aten, name)(x.clone(), noise, 0.1, 0.4, True)
    rushlight.manual_seed(0)
    assert found.equal(F.rrelu(x, 0.1, 0.4, True)) and found.equal(x * noise)
    assert noise[1] == noise[4] == 1
    getattr(aten, name)(x.clone(), noise.fill_(7), 0.1, 0.4, False)
    assert (noise == 7).all()
    with pytest.raises(NotImplementedError, match="default generator"):
        getattr(aten, name)(x.clone(), noise, 0.1, 0.4, True, rushlight.Generator())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.group_norm(x, 2),
        lambda x: x @ x[0].mT,
        lambda x: rushlight.kron(x[0], x[1]),
        lambda x: F.linear(x, x[0, :, :3]),
    ],
)
def test_results_may_be_changed_in_place(function):
    x = rushlight.randn(2, 4, 3, dtype=rushlight.float64, requires_grad=True)

    def gradient():
        made = function(x)
        return rushlight.autograd.grad(F.silu(made, inplace=True).sin().sum(), x)[0]

    expected = gradient()
    with Log():
        rushlight.testing.assert_close(gradient(), expected)
