"""`__torch_dispatch__` of modes and of classes of tensors."""

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
    with pytest.raises(NotImplementedError, match="used by several operations"):
        (w.exp() + w).sum().backward()
    with pytest.raises(NotImplementedError, match="no gradient formula.*Wrapper"):
        F.gelu(w).sum().backward()


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
