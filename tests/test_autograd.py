"""Autograd as programs see it: hooks, views and in-place ops, modes, custom functions, errors."""

import math

import pytest
from table import assert_values

import rushlight as torch


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
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t) or len(packed) - 1, lambda n: packed[n]
    ):
        y = x.exp() * x
    y.backward()
    assert packed and x.grad.item() == pytest.approx(3 * 2.718281828**2)


# ---- the graph


def test_graph_attributes():
    x = leaf(1.0)
    y = x.exp()
    assert x.is_leaf and not y.is_leaf and x.grad_fn is None
    assert y.grad_fn.name() == "ExpBackward0"
    ((node, index),) = y.grad_fn.next_functions
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
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x, retain_graph=True)
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


@pytest.mark.parametrize(
    "pieces", [lambda t: t.unbind(), lambda t: t.split(1), lambda t: t.chunk(2), list]
)
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
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match="nan"),
        torch.autograd.detect_anomaly(),
    ):
        x.sqrt().sum().backward()


def test_anomaly_mode_names_a_gradient_that_the_next_node_computes():
    """That of relu is computed by batch norm's kernel, and not by itself."""
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly():
        out = model(torch.randn(2, 3, 8, 8)).sum()
        with torch.no_grad():
            model[1].weight.data[0] = float("nan")
        with pytest.raises(RuntimeError, match="'NativeBatchNormBackward0' returned nan") as caught:
            out.backward()
    text = str(caught.value)
    assert "They may begin in what it was given, which was computed with them, by 'Relu" in text
    assert text.index("batch_norm on line") < text.index("relu on line")


def test_anomaly_mode_finds_what_is_added_to_a_table():
    table, places = torch.ones(500, 4, requires_grad=True), torch.tensor([3, 3, 7])
    embedding = torch.nn.functional.embedding
    with pytest.warns(UserWarning), torch.autograd.detect_anomaly():
        embedding(places, table).sum().backward()
        rows = embedding(places, table)
        with pytest.raises(RuntimeError, match="'EmbeddingBackward0' returned nan values in its 0"):
            rows.backward(torch.full_like(rows, float("nan")))


# ---- custom functions


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return 2 * x * grad * ctx.factor, None


def test_custom_function_and_its_double_backward():
    x = leaf(3.0)
    (first,) = torch.autograd.grad(Scale.apply(x, 2.0), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert (first.item(), second.item()) == (12.0, 4.0)
    assert torch.autograd.gradcheck(lambda t: Scale.apply(t, 2.0), (leaf(1.0, 2.0),))


class Power(torch.autograd.Function):
    @staticmethod
    def forward(x, exponent=3, *, unused=None):
        return x**exponent

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.exponent = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.exponent * x ** (ctx.exponent - 1), None


def test_setup_context_sees_what_a_call_leaves_out_or_names():
    for call, slope in (
        (lambda x: Power.apply(x), 12.0),
        (lambda x: Power.apply(x, 4), 32.0),
        (lambda x: Power.apply(x, exponent=2), 4.0),
        (lambda x: Power.apply(exponent=2, x=x), 4.0),
    ):
        x = leaf(2.0)
        call(x).sum().backward()
        assert x.grad.tolist() == [slope]
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        Power.apply(leaf(2.0), wrong=2)
    with pytest.raises(TypeError, match="Scale.apply.. takes no keyword arguments.*factor"):
        Scale.apply(leaf(2.0), factor=2)


def test_a_function_with_two_gradients_or_none_says_so_in_backward():
    class Two(Scale):
        @staticmethod
        def vjp(ctx, grad):
            return grad, None

    class Neither(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

    with pytest.raises(RuntimeError, match="Two: Implementing both 'backward' and 'vjp'"):
        Two.apply(leaf(1.0), 2.0).backward()
    with pytest.raises(NotImplementedError, match="must implement either the backward"):
        Neither.apply(leaf(1.0)).backward()


class Kept(torch.Tensor):
    pass


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x) if type(x) is torch.Tensor else x

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_an_input_returned_as_it_is_keeps_its_class():
    x = torch.ones(2).as_subclass(Kept)
    assert type(Same.apply(x)) is Kept and Same.apply(x) is not x
    y = Same.apply(x.requires_grad_())
    assert type(y) is Kept and y.grad_fn.name() == "SameBackward"


def test_views_of_functions_are_not_changed_in_place():
    for base in (torch.ones(2), leaf(1.0, 2.0) * 1):
        view = Same.apply(base)
        with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
            view += leaf(1.0, 2.0)
    with torch.no_grad():
        view = Same.apply(leaf(1.0, 2.0))
        view += 1


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
    (first,) = torch.autograd.grad(out, x, create_graph=True)
    first.pow(2).sum().backward()
    hidden = (x @ weights.t()).tanh()
    slope = 1 - hidden * hidden
    expected = 2 * (first @ weights.t() * slope * -2 * hidden) @ weights
    assert_values(x.grad.numpy(), expected.detach().numpy(), 1e-7)


# ---- what nodes keep, and in-place ops


def test_nodes_show_what_they_keep():
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    product = x * y
    assert product.grad_fn._saved_self is x and product.grad_fn._saved_other is y
    assert torch.equal(x.exp().grad_fn._saved_result, x.exp())
    assert (x**2).grad_fn._saved_exponent == 2 and x.sum(0).grad_fn._saved_dim == (0,)
    assert x.sum(0).grad_fn._saved_keepdim is False
    with pytest.raises(AttributeError, match="_saved_nothing"):
        _ = product.grad_fn._saved_nothing
    product.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = product.grad_fn._saved_self


def test_the_accumulator_has_torchs_name():
    (node, _), *_ = (torch.ones(2, requires_grad=True) * 2).grad_fn.next_functions
    assert node.name() == "torch::autograd::AccumulateGrad"
    assert type(node).__name__ == "AccumulateGrad" and repr(node).startswith(
        "<AccumulateGrad object"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.mul_(x), lambda x: x.div_(x + 1), lambda x: x.pow_(x),
        lambda x: x.mul_(x[0]), lambda x: x.square_(), lambda x: x.clamp_(0.5, 1.5),
        lambda x: torch.nn.functional.celu(x, 1.5, True), lambda x: x.addmm_(x, x),
        lambda x: x.addcmul_(x, x), lambda x: x.lerp_(x, x), lambda x: x.ldexp_(x),
        lambda x: x.logit_(1e-3),
        lambda x: torch.nn.functional.selu(x, True), lambda x: x.float_power_(2.0),
        lambda x: x.index_add_(0, torch.tensor([1, 1]), x),
        lambda x: x.index_put_((torch.tensor([1, 0]),), x + 1),
        lambda x: x.index_copy_(1, torch.tensor([1, 0]), x),
        lambda x: x.scatter_add_(0, torch.tensor([[1, 0], [1, 1]]), x),
        lambda x: x.masked_scatter_(torch.eye(2).bool(), x), lambda x: x[:, 0].cumprod_(0),
        lambda x: x.cumsum_(1),
        lambda x: x.masked_fill_(torch.eye(2).bool(), x[0, 1]),
        lambda x: x.mul_(2).t()[0].index_fill_(0, torch.tensor([1]), 3.0),
    ],
)  # fmt: skip
def test_in_place_is_the_plain_op(change):
    """Also where backward needs what the op overwrites, and where an operand is the tensor
    itself."""
    start = torch.tensor([[0.3, 0.7], [0.9, 0.4]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: change(x.clone()), start)


def test_in_place_without_a_gradient():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.eq_(2)  # constant almost everywhere
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    y = x * 2
    y.floor_divide_(2)
    with pytest.raises(RuntimeError, match="floor_divide_ is not implemented"):
        y.sum().backward()
    table = x.reshape(1, 3) * 1
    torch.embedding_renorm_(table, torch.tensor([0]), 0.5, 2.0)
    with pytest.raises(RuntimeError, match="embedding_renorm_ is not implemented"):
        table.sum().backward()


def test_class_weights_have_no_gradient():
    x, classes = torch.randn(3, 4, requires_grad=True), torch.tensor([0, 1, 2])
    weight = torch.rand(4, requires_grad=True)
    for loss in (torch.nn.functional.nll_loss, torch.nn.functional.cross_entropy):
        with pytest.raises(
            RuntimeError, match="not differentiable with respect to argument 'weight'"
        ):
            loss(x, classes, weight=weight)
        loss(x, classes, weight=weight.detach()).backward()
        with torch.no_grad():
            loss(x, classes, weight=weight)


def test_gradients_of_ties_are_exact():
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    x.amax().backward()
    assert x.grad.tolist() == [1 / 3] * 3  # not as a float32 has it


# ---- memory that gradients share


F = torch.nn.functional
LEFT = torch.tensor([[1.0, -2, 0.5, 3], [0, 1, 2, -1], [1, 1, 0, 2]], dtype=torch.float64)
RIGHT = LEFT.flip(0) * 0.5
PARTS = {
    "select": lambda x: sum(x[:, i] * (i + 1) for i in range(4)),
    "slice": lambda x: x[:, :3] * 2 + x[:, 1:] ** 2 + x[::2, :3].sum(0),
    "diagonal": lambda x: x.diagonal() * 2 + x.diagonal(1).sum() * x[0, 0],
    "mask": lambda x: x[x.detach() > 0].sum() + x[torch.tensor([0, 0, 2])].exp(),
    "index": lambda x: x[[0, 2, 0], [1, 1, 1]] * x[[1, 1, 1], [1, 2, 3]],
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 3, 0])) * x[:, 1:],
    "gather": lambda x: x.gather(1, torch.tensor([[0, 0], [1, 3], [2, 2]])) * x[:, :2],
    "take": lambda x: x.take(torch.tensor([0, 5, 5, 11])) * x[0],
    "pieces": lambda x: x.split([1, 2, 1], 1)[1] * x.unbind(0)[1][:2] + x[:, 1:3],
    "max": lambda x: x.max(1).values * x.min(1).values * x.sort(1).values[:, 1] * x.mode(1).values,
    "cummax": lambda x: x.cummax(0).values * x.cummin(1).values,
    "embedding": lambda x: F.embedding(torch.tensor([2, 0, 2]), x) * x[1] + x * LEFT,
    "linear input": lambda x: F.linear(x, LEFT) * F.linear(x, RIGHT, x[0, :3]),
    "linear weight": lambda x: F.linear(F.linear(LEFT, x), x.t()) + F.linear(RIGHT, x)[:, :1],
    "linear vector": lambda x: F.linear(LEFT, x[0]) + F.linear(RIGHT, x[0]),
    "transposed first": lambda x: x.t().exp().sum(1) * x[0] * F.linear(x, LEFT).sum(),
}


@pytest.mark.parametrize("name", PARTS)
def test_gradients_of_parts_add_up_in_one_buffer(name):
    """With create_graph nothing is added in place: the same numbers, by other ways."""
    x = torch.linspace(-1.1, 1.7, 12, dtype=torch.float64).view(3, 4).requires_grad_()

    def loss(x):
        return (PARTS[name](x * 1.0).sum() * 0.5).exp()

    (expected,) = torch.autograd.grad(loss(x), x, create_graph=True)
    (found,) = torch.autograd.grad(loss(x), x)
    assert_values(found.tolist(), expected.detach().tolist(), 1e-12)
    seen = []
    y = x * 1.0
    y.register_hook(lambda grad: seen.append(grad))
    (PARTS[name](y).sum() * 0.5).exp().backward()
    assert_values(x.grad.tolist(), expected.detach().tolist(), 1e-12)
    assert_values(seen[0].tolist(), expected.detach().tolist(), 1e-12)
    torch.autograd.gradcheck(loss, x)


def test_a_gradient_that_others_see_stays():
    x = leaf(0.5, -1.0, 2.0)
    seen = []

    def keep(t):
        t.register_hook(lambda grad: seen.append((grad, grad.tolist())))
        return t

    def chain(y):
        for step in (torch.tanh, torch.exp, lambda t: t * t, torch.neg, torch.relu, torch.sigmoid):
            y = keep(step(y))
        return y

    given = torch.ones(3, dtype=torch.float64)
    chain(x * 1).backward(given)
    assert given.tolist() == [1.0] * 3 and len(seen) == 6
    for grad, values in seen:
        assert grad.tolist() == values
    middle = torch.tanh(x)
    end = torch.sigmoid(middle).exp()
    of_middle, of_x = torch.autograd.grad(end, [middle, x], given)
    detached = middle.detach().requires_grad_()
    torch.sigmoid(detached).exp().sum().backward()
    assert_values(of_middle.tolist(), detached.grad.tolist(), 1e-12)
    assert_values(of_x.tolist(), (detached.grad * (1 - middle.detach() ** 2)).tolist(), 1e-12)


def test_a_gradient_that_nobody_sees_is_written_over():
    places = []

    def note(t):
        t.register_hook(lambda grad: places.append(grad.data_ptr()))
        return t

    x = torch.randn(1000, requires_grad=True)
    note(note(note((x * 2).exp()).tanh()) * 3.0).sigmoid().square().sum().backward()
    assert len(places) == 3 and len(set(places)) == 1


def test_two_inputs_share_a_gradient():
    a, b = leaf(1.0, 2.0), leaf(3.0, 5.0)
    c = a + b
    (c * 2 + c.exp() * 0 + (a - b) * a * b).sum().backward()
    assert a.grad.tolist() == [2 + 2 * 3 - 9, 2 + 2 * 2 * 5 - 25]
    assert b.grad.tolist() == [2 + 1 - 2 * 3, 2 + 4 - 2 * 2 * 5]


def test_gradients_that_are_one_number():
    """A mean's is a tensor of its own for hooks and callers; a sum's is not, in torch neither."""
    x = leaf(1.0, 2.0, 3.0, 4.0)
    x.register_hook(lambda grad: grad.mul_(2))
    x.mean().backward()
    assert x.grad.tolist() == [0.5] * 4
    y = x * 1
    y.retain_grad()
    (grad,) = torch.autograd.grad(y.mean(), y)
    assert grad.add_(torch.arange(4.0)).tolist() == [0.25, 1.25, 2.25, 3.25]
    for total in (y.sum(), y.sum(0), y.reshape(2, 2).sum(1).sum()):
        (grad,) = torch.autograd.grad(total, y, retain_graph=True)
        assert grad.tolist() == [1.0] * 4
    for total in (y.sum(), y.sum(0)):
        (grad,) = torch.autograd.grad(total, y, retain_graph=True)
        assert grad.stride() == (0,)
        with pytest.raises(RuntimeError, match="single memory location"):
            grad.mul_(2)
        total.backward(retain_graph=True)
        y.grad.mul_(2)


def test_parts_of_a_sparse_and_a_dense_gradient():
    weight = torch.ones(3, 2, requires_grad=True)
    rows = torch.nn.functional.embedding(torch.tensor([0, 2]), weight, sparse=True)
    ((weight * 3).sum() + rows.sum()).backward()
    assert weight.grad.to_dense().tolist() == [[4, 4], [3, 3], [4, 4]]


def test_inference_mode_records_nothing_even_with_grad_enabled():
    x = leaf(2.0)
    with torch.inference_mode():
        with torch.enable_grad():
            assert torch.is_grad_enabled()
            results = [x * 2, x.exp() * x, Scale.apply(x, 3.0), torch.stack([x, x])]
            changed = torch.zeros(1)
            changed.add_(x)
        with torch.inference_mode(False):
            outside = x * 2
    for result in (*results, changed):
        assert result.is_inference() and not result.requires_grad
    outside.backward()
    assert x.grad.item() == 2


def test_anomaly_mode_names_the_call_whose_custom_backward_failed():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("of the user")

    with pytest.warns(UserWarning) as told, torch.autograd.detect_anomaly():
        y = Fails.apply(leaf(1.0))
        with pytest.raises(ValueError, match="of the user"):
            y.backward()
    (message,) = (str(w.message) for w in told if "Error detected" in str(w.message))
    assert "FailsBackward" in message and "test_autograd.py" in message


def test_a_hook_may_not_change_the_tensor_that_is_saved():
    x = leaf(2.0)
    with (
        pytest.raises(RuntimeError, match="in place"),
        torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().add_(1), lambda t: t),
    ):
        x.exp() * x


def test_backward_accumulates_into_inputs_that_are_no_leaves():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    for times in (1, 2):
        (y**2).sum().backward(inputs=[y], retain_graph=True)
        assert y.grad.tolist() == [4 * times, 8 * times] and x.grad is None
    (y**2).sum().backward(inputs=[x, y])
    assert y.retains_grad and y.grad.tolist() == [12, 24] and x.grad.tolist() == [8, 16]


def test_batched_gradients_of_what_is_not_used_are_batched_too():
    class OnlyPositive(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad if grad.sum() > 0 else None

    x, unused = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
    rows = torch.eye(3)
    found = torch.autograd.grad(
        x**2, (x, unused), rows, is_grads_batched=True, materialize_grads=True
    )
    assert found[0].tolist() == (2 * rows).tolist() and found[1].tolist() == [[0, 0]] * 3
    y, signs = OnlyPositive.apply(x), torch.tensor([-1.0, 1.0])[:, None] * rows[:2]
    (found,) = torch.autograd.grad(y, x, signs, allow_unused=True, is_grads_batched=True)
    assert found.tolist() == [[0, 0, 0], [0, 1, 0]]


def test_a_node_of_a_custom_function_is_named_after_it():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kinds.append(type(ctx))
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Other(Cube):
        pass

    kinds = []
    x = torch.ones(1, requires_grad=True)
    y, z = Cube.apply(x), Other.apply(x)
    node, other = y.grad_fn, z.grad_fn
    assert type(node).__name__ == node.name() == "CubeBackward"
    assert type(node)._forward_cls is Cube
    assert type(other).__name__ == "OtherBackward" and type(other)._forward_cls is Other
    Cube.apply(torch.ones(1))
    assert kinds == [type(node), type(other), type(node)]


def test_what_is_marked_dirty_must_be_returned():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2).clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    with pytest.raises(RuntimeError, match="were not returned as output"):
        Doubled.apply(torch.ones(2, requires_grad=True) * 1)


def test_a_leaf_that_is_frozen_before_backward_gets_no_gradient():
    for freeze in (lambda t: t.requires_grad_(False), lambda t: t.detach_()):
        x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        loss = (x * w).sum()
        freeze(w)
        loss.backward()
        assert w.grad is None and x.grad.tolist() == [1, 1, 1]


def test_in_place_on_a_view_whose_base_became_a_leaf():
    for freeze in (lambda t: t.requires_grad_(False), lambda t: t.detach_()):
        x = torch.ones(4, requires_grad=True)
        view = x.chunk(2)[1]
        freeze(x)
        with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
            view.mul_(2)
        assert view.tolist() == [1, 1]


def test_hooks_on_unused_parts():
    x = torch.ones(2, 3, requires_grad=True) * 1
    seen = []
    for n, part in enumerate(parts := x.tensor_split(3, 1)):
        part.register_hook(lambda grad, n=n: seen.append(n))
    parts[0].sum().backward()
    assert seen == [0]


@pytest.mark.parametrize(
    "text",
    [
        "x.lerp(x + 1, 0.1)",
        "torch.xlogy(x, 0.1)",
        "0.1 ** x",
        "x ** 0.1",
        "torch.ldexp(x, x)",
        "torch.special.xlog1py(x, 0.1)",
    ],
)
def test_numbers_keep_their_precision_under_create_graph(text):
    x = torch.tensor([0.7, 1.3], dtype=torch.float64, requires_grad=True)
    out = eval(text, {"torch": torch, "x": x}).sum()
    plain, again = (
        torch.autograd.grad(out, x, create_graph=create, retain_graph=True)[0]
        for create in (False, True)
    )
    assert again.tolist() == pytest.approx(plain.tolist(), rel=1e-13, abs=0)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_cross_entropy_of_ignored_targets_alone(label_smoothing):
    x = torch.randn(4, 5, requires_grad=True)
    target = torch.full((4,), -100)
    loss = torch.nn.functional.cross_entropy(x, target, label_smoothing=label_smoothing)
    (grad,) = torch.autograd.grad(loss, x, create_graph=True)
    assert loss.isnan() and not grad.any()
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert not second.any()


def test_arguments_of_2017():
    def loss(x):
        return (x * x).sum()

    x = torch.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="tensors"):
        torch.autograd.backward(variables=[loss(x)])
    assert x.grad.tolist() == [2, 2]
    y = loss(x)
    with pytest.warns(FutureWarning, match="retain_graph"):
        torch.autograd.backward(y, retain_variables=True)
    with pytest.warns(FutureWarning, match="retain_graph"):
        y.backward(retain_variables=True)
    y.backward(None, None, None)
    assert x.grad.tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="both"):
        torch.autograd.backward(y, retain_graph=True, retain_variables=True)
    with pytest.raises(TypeError, match="tensors"):
        torch.autograd.backward()


def test_gradients_of_a_function_come_in_a_list():
    class Both(torch.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, grads):
            assert type(grads) is list
            first, second = grads.pop(0), grads.pop(0)
            return first * 2 + second * 3

    x = torch.ones(2, requires_grad=True)
    a, b = Both.apply(x)
    (a.sum() + 10 * b.sum()).backward()
    assert x.grad.tolist() == [32, 32]
    one = torch.ones(2)
    assert a.grad_fn.apply(one, one).tolist() == [5, 5]
    assert a.grad_fn.apply_boxed([one, 2 * one]).tolist() == [8, 8]


def test_nodes_of_functions_call_what_programs_wrote():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 5

    node = Twice.apply(torch.ones(1, requires_grad=True)).grad_fn
    assert node.apply(torch.ones(1)).item() == 2 and node.apply_jvp(torch.ones(1)).item() == 5

    class Wrong(Twice):
        @staticmethod
        def backward(ctx, grad):
            return grad

    node = Wrong.apply(torch.ones(1, requires_grad=True)).grad_fn
    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        node.apply(torch.ones(1))


def test_saved_tensors_that_are_read_once():
    class Square(torch.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with pytest.raises(RuntimeError, match="can only be accessed once"):
                ctx.saved_tensors  # noqa: B018
            return 2 * x * grad

    x = torch.tensor(3.0, requires_grad=True)
    Square.apply(x).backward()
    assert x.grad.item() == 6


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_saved_output_has_its_history_in_backward(create_graph):
    """Of which programs take derivatives there: implicit functions, at the point they found."""

    class Root(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.sqrt(), root := x.sqrt())
            return root

        @staticmethod
        def backward(ctx, grad):
            plain, root = ctx.saved_tensors
            assert not plain.requires_grad and root.requires_grad
            assert root.grad_fn.name() == "RootBackward"
            with torch.enable_grad():
                square = (root * root).sum()
            return grad / torch.autograd.grad(square, root, create_graph=create_graph)[0]

    x = torch.tensor([4.0, 9.0], requires_grad=True)
    (slope,) = torch.autograd.grad(Root.apply(x).sum(), x, create_graph=create_graph)
    assert slope.tolist() == pytest.approx([1 / 4, 1 / 6])
    assert slope.requires_grad == create_graph


def test_older_methods_of_contexts():
    class Old(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with pytest.warns(FutureWarning, match="mark_shared_storage"):
                ctx.mark_shared_storage((x, x))
            with pytest.raises(NotImplementedError, match="maybe_clear_saved_tensors"):
                ctx.maybe_clear_saved_tensors()
            return x.clone()

    assert Old.apply(torch.ones(1)).item() == 1
    with pytest.raises(NotImplementedError, match="forward_extended"):
        torch.autograd.NestedIOFunction.forward_extended(None)


def test_what_is_refused_says_what_is_wrong():
    node = (leaf(1.0) ** 2).grad_fn
    with pytest.raises(TypeError, match="PowBackward0: expected 1 arguments, got 0 instead"):
        node()
    edge = torch.autograd.graph.get_gradient_edge(leaf(1.0))
    with pytest.raises(RuntimeError, match="materialize_grads.*GradientEdge"):
        torch.autograd.grad(leaf(1.0).sum(), edge, allow_unused=True, materialize_grads=True)
    with pytest.warns(FutureWarning, match="no_grad: Decorating classes"):

        @torch.no_grad()
        class Made:
            recording = property(lambda self: torch.is_grad_enabled())

    assert Made().recording


def test_new_data_leave_the_version():
    x, factor = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0)
    y = factor * x
    factor.data *= 2
    assert factor._version == 0
    y.backward()
    assert x.grad == 4
    other = torch.zeros(2)
    other.add_(1).add_(1)
    factor.add_(1)
    factor.data = other
    assert (factor._version, other._version) == (1, 2)
    factor.add_(1)
    assert (factor._version, other._version) == (2, 2) and other.tolist() == [3, 3]


def test_inference_tensors_have_no_version_to_increment():
    with torch.inference_mode():
        x = torch.ones(2)
    y = torch.ones(2)
    torch.autograd.graph.increment_version([x, y])
    assert y._version == 1


def test_grad_of_sparse_tensors():
    x, y = torch.eye(3).to_sparse().requires_grad_(), torch.ones(3, 2, requires_grad=True)
    for_x, for_y = torch.autograd.grad(torch.sparse.mm(x, y).sum(), (x, y))
    assert for_x.layout is torch.sparse_coo and for_y.tolist() == [[1, 1]] * 3
    (grad,) = torch.autograd.grad(x.to_dense(), x, torch.ones(3, 3))
    assert grad.layout is torch.sparse_coo


NO_DERIVATIVES = {
    "airy_ai": lambda x: torch.special.airy_ai(x),
    "heaviside": lambda x: torch.heaviside(x, torch.tensor(1.0)),
    "heaviside of values": lambda x: torch.heaviside(torch.zeros(2), x),
    "floor_divide": lambda x: torch.floor_divide(x, 2),
    "floor_divide by": lambda x: torch.floor_divide(torch.ones(2), x),
    "floor_divide_": lambda x: (x * 1).floor_divide_(2),
    "floor_divide_ by": lambda x: torch.ones(2).floor_divide_(x),
    "histc": lambda x: torch.histc(x, 2),
}


@pytest.mark.parametrize("name", NO_DERIVATIVES)
def test_no_way_leads_round_what_has_no_derivative(name):
    """`grad` found the other ways to the input alone, and forward mode found 0."""
    f, x = NO_DERIVATIVES[name], torch.tensor([1.5, 2.5], requires_grad=True)
    refused = pytest.raises(RuntimeError, match=f"{name.split()[0]} is not implemented")
    with refused:
        torch.autograd.grad((f(x) + x).sum(), x)
    with refused:
        torch.autograd.grad(f(x).sum(), x)
    with refused:
        torch.func.grad(lambda x: (f(x) + x).sum())(x.detach())
    with refused:
        torch.func.jvp(f, (x.detach(),), (torch.ones(2),))
    other = torch.ones(2, requires_grad=True)
    (grad,) = torch.autograd.grad((f(x) + other).sum(), other)  # no way to x is asked for
    assert grad.tolist() == [1, 1]


def test_second_derivatives_of_ctc_loss_are_refused():
    """They were 0, beside those of what comes before it."""
    x = torch.randn(5, 2, 4, dtype=torch.float64, requires_grad=True)
    labels, lengths = torch.tensor([[1, 2], [3, 1]]), (torch.tensor([5, 4]), torch.tensor([2, 1]))

    def loss(x):
        return torch.nn.functional.ctc_loss(x.log_softmax(-1), labels, *lengths)

    (grad,) = torch.autograd.grad(loss(x), x, create_graph=True)
    refused = pytest.raises(RuntimeError, match="ctc_loss has no second derivative")
    with refused:
        torch.autograd.grad(grad.square().sum(), x)
    with refused:
        torch.func.jvp(torch.func.grad(loss), (x.detach(),), (torch.ones_like(x),))
    with refused:
        torch.func.jvp(loss, (x.detach(),), (torch.ones_like(x),))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_bits_that_mean_other_numbers_have_no_gradient(dtype):
    x = torch.ones(4, requires_grad=True)
    y = x * 2
    bits = y.view(dtype)
    assert not bits.requires_grad and bits.data_ptr() == y.data_ptr()
    (y.sum() + bits.detach().to(torch.float32).sum()).backward()
    assert x.grad.tolist() == [2.0] * 4
    saved = y.sin()
    bits.zero_()  # its memory is that of y
    assert y[0] == 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation|in-place"):
        saved.sum().backward()


def test_complex_numbers_seen_as_their_parts_have_gradients():
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    z.view(torch.float32).sum().backward()  # whose gradient is expanded
    assert z.grad.tolist() == [1 + 1j] * 2
    x = torch.ones(4, requires_grad=True)
    x.view(torch.complex64).sum().abs().backward()
    assert torch.allclose(x.grad, torch.full((4,), 0.5**0.5))


# ---- leaves that change between forward and backward


def test_a_leaf_of_another_shape_gets_a_gradient_of_its_own():
    x = leaf([1.0, 2.0, 3.0])
    y, z = x * x.detach().clone(), x.sum()
    with torch.no_grad():
        x.unsqueeze_(0)
    y.sum().backward()
    assert x.grad.shape == x.shape == (1, 1, 3) and x.grad.flatten().tolist() == [1.0, 2.0, 3.0]
    assert torch.autograd.grad(z, x)[0].shape == (1, 1, 3)
    (x * 2).sum().backward()
    assert x.grad.flatten().tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_a_leaf_that_was_squeezed(create_graph):
    x, c = leaf([1.0, 2.0]), torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    y = x * c
    (x * 1).sum().backward(create_graph=create_graph)
    with torch.no_grad():
        x.squeeze_(0)
    z = (x * 5).sum()
    y.sum().backward()
    z.backward()
    assert x.grad.shape == (2,) and x.grad.tolist() == [9.0, 10.0]
    x.grad = None


def test_a_leaf_of_a_shape_that_its_gradient_does_not_fit():
    x = leaf([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    y = x * 2
    with torch.no_grad():
        x.t_()
    with pytest.raises(RuntimeError, match=r"got \[2, 3\] but expected shape .*\[3, 2\]"):
        y.sum().backward()
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad.shape == (3, 2)


def test_a_leaf_that_became_a_result():
    base = torch.zeros(3)
    x = base[1:].requires_grad_()
    y = x * 2
    base.mul_(leaf(1.0, 2.0, 3.0).float())
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        y.sum().backward()
    assert torch.autograd.grad((x * 2).sum(), x)[0].tolist() == [2.0, 2.0]


def test_a_saved_tensor_that_was_detached():
    def second(x, again):
        y = x * 2
        z = y.sin()
        y.detach_()
        (slope,) = torch.autograd.grad(z, x, create_graph=again)
        return slope

    x = leaf(1.5)
    assert second(x, False).item() == pytest.approx(2 * math.cos(3))
    with pytest.raises(RuntimeError, match="detached in-place: of shape .*saved by sin"):
        second(x, True)


def test_what_keeps_nothing_may_run_twice():
    x, c = leaf(1.0), torch.tensor(2.0, dtype=torch.float64)
    for y in ((x + 1).addcmul(c, c), (x + 1).addcdiv_(c, c), torch.cat([x, c.reshape(1)])):
        for _ in range(2):
            y.sum().backward()
    assert x.grad.tolist() == [6.0]
    y = (x + 1).addcmul(x, c)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_the_extreme_of_elements_that_changed_unseen():
    x = leaf(1.0, 5.0)
    y = x.max()
    x.data.mul_(3)
    y.backward()
    assert x.grad.tolist() == [0.0, 0.0]
