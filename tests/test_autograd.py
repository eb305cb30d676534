"""Autograd as programs see it: hooks, views and in-place ops, modes, custom functions, errors."""

import pytest
import rushlight as torch
from table import assert_values


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# ---- hooks


def test_hooks_run_in_order_and_replace_gradients():
    x, seen = leaf(1.0, 2.0), []
    y = x * 3
    y.register_hook(lambda grad: seen.append("first") or grad * 2)
    y.register_hook(lambda grad: seen.append("second") or grad + 1)
    y.retain_grad()
    handle = x.register_hook(lambda grad: seen.append("removed"))
    handle.remove()
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append("accumulated"))
    y.sum().backward()
    assert seen == ["first", "second", "accumulated"]
    assert y.grad.tolist() == [3.0, 3.0] and x.grad.tolist() == [9.0, 9.0]


def test_node_hooks():
    x, seen = leaf(1.0), []
    y = (x * 2).exp()
    y.grad_fn.register_prehook(lambda grads: seen.append("before"))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
    y.backward()
    assert seen == ["before", "after"]


def test_saved_tensor_hooks():
    x, packed = leaf(2.0), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or len(packed) - 1, lambda n: packed[n]):
        y = x.exp() * x
    y.backward()
    assert packed and x.grad.item() == pytest.approx(3 * 2.718281828**2)


# ---- the graph


def test_graph_attributes():
    x = leaf(1.0)
    y = x.exp()
    assert x.is_leaf and not y.is_leaf and x.grad_fn is None
    assert y.grad_fn.name() == "ExpBackward0"
    (node, index), = y.grad_fn.next_functions
    assert node.name().endswith("AccumulateGrad") and index == 0 and node.variable is x
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata["note"] == 1
    assert y.detach().grad_fn is None and not y.detach().requires_grad


def test_second_backward_is_an_error_that_says_so():
    x = leaf(1.0)
    y = x.exp()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_gradients_accumulate():
    x = leaf(1.0, 2.0)
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_arguments_of_grad():
    x, unused = leaf(2.0), leaf(1.0)
    y = x**3
    first, = torch.autograd.grad(y, x, create_graph=True)
    second, = torch.autograd.grad(first, x, retain_graph=True)
    assert (first.item(), second.item()) == (12.0, 12.0)
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(y, (x, unused), retain_graph=True)
    assert torch.autograd.grad(y, (x, unused), retain_graph=True, allow_unused=True)[1] is None
    _, zeros = torch.autograd.grad(y, (x, unused), retain_graph=True, materialize_grads=True)
    assert zeros.tolist() == [0.0]
    assert torch.autograd.grad(y, x, torch.tensor([2.0], dtype=torch.float64))[0].item() == 24.0


# ---- views and in-place


def test_in_place_on_a_view_rewrites_the_history_of_its_base():
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    other = base[1:]
    base[0].mul_(10)
    other.mul_(2)
    assert base.tolist() == [10.0, 4.0, 6.0]
    base.sum().backward()
    assert x.grad.tolist() == [10.0, 2.0, 2.0]


@pytest.mark.parametrize("pieces", [lambda t: t.unbind(), lambda t: t.split(1), lambda t: t.chunk(2), list])
def test_in_place_on_pieces(pieces):
    x = leaf(3.0, 4.0)
    base = x * 1
    first, second, *_ = pieces(base)
    first.mul_(5)
    (base * base).sum().backward()
    assert x.grad.tolist() == [150.0, 8.0] and second.sum().item() == 4.0


def test_in_place_on_a_leaf_is_refused():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    with torch.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0]


def test_the_in_place_error_names_both_ops_and_lines():
    x = leaf(1.0)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError) as error:
        y.sum().backward()
    text = str(error.value)
    assert "exp" in text and "add_" in text and text.count("test_autograd.py") >= 1, text


def test_version_counter():
    x = torch.zeros(3)
    view, before = x[1:], x._version
    view.add_(1)
    assert x._version == view._version == before + 1


# ---- modes


def test_modes():
    x = leaf(1.0)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        inside = x * 2
    assert inside.is_inference() and not inside.requires_grad

    @torch.no_grad()
    def decorated():
        return x * 2

    assert not decorated().requires_grad


def test_anomaly_mode_names_the_backward_that_made_nan():
    x = leaf(-1.0)
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="nan"), torch.autograd.detect_anomaly():
        x.sqrt().sum().backward()


# ---- custom functions


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return 2 * x * grad * ctx.factor, None


def test_custom_function_and_its_double_backward():
    x = leaf(3.0)
    first, = torch.autograd.grad(Scale.apply(x, 2.0), x, create_graph=True)
    second, = torch.autograd.grad(first, x)
    assert (first.item(), second.item()) == (12.0, 4.0)
    assert torch.autograd.gradcheck(lambda t: Scale.apply(t, 2.0), (leaf(1.0, 2.0),))


def test_mark_dirty_and_non_differentiable():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            place = x.argmax()
            ctx.mark_non_differentiable(place)
            return x, place

        @staticmethod
        def backward(ctx, grad, _):
            return grad * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    z, place = Double.apply(y)
    assert z is y and not place.requires_grad
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_double_backward_of_a_small_network():
    torch.manual_seed(0)
    weights = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    out = torch.tanh(x @ weights.t()).sum()
    first, = torch.autograd.grad(out, x, create_graph=True)
    first.pow(2).sum().backward()
    hidden = (x @ weights.t()).tanh()
    slope = 1 - hidden * hidden
    expected = 2 * (first @ weights.t() * slope * -2 * hidden) @ weights
    assert_values(x.grad.numpy(), expected.detach().numpy(), 1e-7)
