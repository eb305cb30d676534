"""rushlight.func: transforms of functions, one in another, beside derivatives written by hand."""

import warnings

import pytest

import rushlight
from rushlight import nn
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)

X, W = 2.0, 3.0


def number(value, requires_grad=False):
    return rushlight.tensor(value, dtype=rushlight.float64, requires_grad=requires_grad)


INNER = {  # the derivative of w * x * x by x, which is 2 * w * x; and how often x comes into it
    "grad": (lambda f, x: grad(f)(x), 1),
    "jacrev": (lambda f, x: jacrev(f)(x), 1),
    "jacfwd": (lambda f, x: jacfwd(f)(x), 1),
    "vjp": (lambda f, x: vjp(f, x)[1](x)[0], 2),
    "jvp": (lambda f, x: jvp(f, (x,), (x,))[1], 2),
    "linearize": (lambda f, x: linearize(f, x)[1](x), 2),
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", [grad, jacrev, jacfwd])
def test_an_inner_transform_sees_the_variables_of_the_outer_one(outer, inner):
    x = number(X)
    derivative, power = INNER[inner]

    def f(w):
        return derivative(lambda x: w * x * x, x)

    found = outer(f)(number(W))
    assert found.item() == 2 * X**power
    assert not found.requires_grad


@pytest.mark.parametrize("inner", INNER)
def test_a_graph_leads_to_what_the_program_differentiates(inner):
    derivative, power = INNER[inner]
    w = number(W, requires_grad=True)
    found = derivative(lambda x: w * x * x, number(X))
    found.backward()
    assert w.grad.item() == 2 * X**power
    x = number(X, requires_grad=True)
    assert derivative(lambda x: x * x, x).requires_grad
    with rushlight.no_grad():
        assert not derivative(lambda x: w * x * x, number(X)).requires_grad


@pytest.mark.parametrize("inner", INNER)
def test_a_result_on_which_nothing_depends_has_no_graph(inner):
    derivative, _ = INNER[inner]
    w = number(W, requires_grad=True)
    assert not derivative(lambda x: x * x, number(X)).requires_grad
    assert not derivative(lambda x: x * x + w, number(X)).requires_grad  # w is in the value alone
    value, product = vjp(lambda x: x * x + w, number(X))
    assert value.requires_grad and not product(number(1.0))[0].requires_grad


def test_a_product_made_outside_is_used_inside():
    _, product = vjp(lambda x: x * x * x, number(X))
    found = grad(lambda weight: product(weight * weight)[0])(number(W))
    assert found.item() == 2 * W * 3 * X**2 and not found.requires_grad


def test_values_and_the_rest():
    w = number(W, requires_grad=True)

    def f(x):
        return x * x, {"twice": 2 * x, "from w": w * x}

    slope, (value, rest) = grad_and_value(f, has_aux=True)(number(X))
    assert (slope.item(), value.item(), rest["twice"].item()) == (2 * X, X * X, 2 * X)
    assert not rest["twice"].requires_grad
    rest["from w"].backward()
    assert w.grad.item() == X
    jacobian, rest = jacrev(f, has_aux=True)(number(X))
    assert jacobian.item() == 2 * X and rest["twice"].item() == 2 * X


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians_of_trees(jacobian):
    a = rushlight.arange(6, dtype=rushlight.float64).reshape(2, 3)
    b = rushlight.tensor([1.0, -2.0, 0.5], dtype=rushlight.float64)

    def f(tensors, scale):
        return {"product": scale * (tensors["a"] @ tensors["b"]), "constant": rushlight.ones(2)}

    found = jacobian(f, argnums=(0, 1))({"a": a, "b": b}, number(2.0))
    by_tree, by_scale = found["product"]
    assert by_tree["a"].tolist() == (2 * rushlight.eye(2)[:, :, None] * b).tolist()
    assert by_tree["b"].tolist() == (2 * a).tolist()
    assert by_scale.tolist() == (a @ b).tolist()
    assert found["constant"][0]["a"].shape == (2, 2, 3) and not found["constant"][0]["a"].any()


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,)])
def test_jacobians_of_few_numbers(jacobian, shape):
    x = rushlight.full(shape, X, dtype=rushlight.float64)
    found = jacobian(lambda x: x**3)(x)
    assert found.shape == (*shape, *shape)
    assert found.flatten().tolist() == [3 * X**2] * x.numel()


@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
def test_second_derivatives(outer, inner):
    x = rushlight.tensor([0.5, -1.0, 2.0], dtype=rushlight.float64)

    def f(x):
        return (x[0] * x[1] + x[2] ** 3) * x[0]

    a, b, c = x.tolist()
    rows = [[2 * b, 2 * a, 3 * c**2], [2 * a, 0, 0], [3 * c**2, 0, 6 * a * c]]
    expected = rushlight.tensor(rows, dtype=rushlight.float64)
    rushlight.testing.assert_close(outer(inner(f))(x), expected)
    rushlight.testing.assert_close(hessian(f)(x), expected)
    points = rushlight.stack([x, x, x])
    rushlight.testing.assert_close(vmap(outer(inner(f)))(points), expected.expand(3, 3, 3))


def test_a_product_is_mapped_over_cotangents():
    x = rushlight.tensor([0.5, -1.0, 2.0], dtype=rushlight.float64)
    _, product = vjp(lambda x: x * x.sum(), x)
    rows = vmap(product)(rushlight.eye(3, dtype=rushlight.float64))[0]
    expected = rushlight.eye(3) * x.sum() + x.unsqueeze(1)
    rushlight.testing.assert_close(rows, expected.double())
    _, push = linearize(lambda x: x * x.sum(), x)
    columns = vmap(push, out_dims=1)(rushlight.eye(3, dtype=rushlight.float64))
    rushlight.testing.assert_close(columns, expected.double())


def test_shared_and_own_inputs_of_a_mapped_gradient():
    shared = number(X, requires_grad=True)
    factors = rushlight.tensor([1.0, 2.0, 3.0], dtype=rushlight.float64)

    def slopes(factor):
        factor = factor.detach().requires_grad_()
        return rushlight.autograd.grad(factor * shared * shared, (shared, factor))

    by_shared, by_factor = vmap(slopes)(factors)
    assert by_shared.tolist() == [2 * X * f for f in (1.0, 2.0, 3.0)]
    assert by_factor.tolist() == [X * X] * 3


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = rushlight.ones(2)  # neither a parameter nor a buffer
        self.kind = "scaled"
        self.inner = nn.Linear(2, 2, bias=False)

    def forward(self, x):
        return x * self.scale + getattr(self, "offset", 0)


def test_functional_call_sets_attributes_that_are_tensors_or_not_there():
    model, x = Scaled(), rushlight.ones(2)
    for given, expected in (
        ({"scale": 3 * x}, [3, 3]),
        ({"offset": 4 * x}, [5, 5]),
        ({"scale": 2 * x, "offset": x}, [3, 3]),
    ):
        assert functional_call(model, given, x).tolist() == expected
        assert functional_call(model, given, x, tie_weights=False).tolist() == expected
        assert model(x).tolist() == [1, 1] and not hasattr(model, "offset")


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"inner.weight": 3.0}, TypeError, r"`weight`: 3.0 is not an instance of torch.Tensor"),
        ({"kind": rushlight.ones(2)}, TypeError, "attribute `kind`: scaled is not an instance"),
        ({"outer.weight": rushlight.ones(2)}, AttributeError, "Scaled has no attribute `outer`"),
        ({"kind.weight": rushlight.ones(2)}, TypeError, "`kind`: scaled is not an instance"),
    ],
)
def test_functional_call_refuses_what_is_no_tensor_or_module(given, error, match):
    model, x = Scaled(), rushlight.ones(2)
    with pytest.raises(error, match=match):
        functional_call(model, {"scale": 7 * x, **given}, x)
    assert model(x).tolist() == [1, 1]


def test_functional_call_of_a_module_that_contains_itself():
    model, x = Scaled(), rushlight.ones(2)
    model.inner.outer = model
    given = {"inner.outer.scale": 3 * x, "scale": 5 * x}
    assert functional_call(model, given, x, tie_weights=False).tolist() == [5, 5]
    assert model(x).tolist() == [1, 1]
    del model.inner.outer


def test_functional_call_strict_names_missing_and_unexpected_keys():
    model, x = Scaled(), rushlight.ones(2)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'scale'. Missing.*inner.weight"):
        functional_call(model, {"scale": x}, x, strict=True)


def test_functional_call_is_no_older_name():
    model = nn.Linear(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        functional_call(model, dict(model.named_parameters()), rushlight.ones(1, 3))


def test_one_inner_step_of_learning_to_learn():
    """The loss after a step of gradient descent, differentiated by where the step began."""
    rushlight.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    start = {name: p.detach() for name, p in model.named_parameters()}
    x, y = rushlight.randn(5, 3).double(), rushlight.randn(5, 1).double()

    def loss(parameters):
        return nn.functional.mse_loss(functional_call(model, parameters, (x,)), y)

    def after_a_step(parameters):
        slopes = grad(loss)(parameters)
        return loss({name: p - 0.1 * slopes[name] for name, p in parameters.items()})

    found = grad(after_a_step)(start)
    step = 1e-6
    for name, p in start.items():
        for at in range(p.numel()):
            moved = rushlight.zeros_like(p)
            moved.view(-1)[at] = step
            high, low = (after_a_step({**start, name: p + sign * moved}) for sign in (1, -1))
            assert found[name].flatten()[at].item() == pytest.approx(
                (high - low).item() / (2 * step), abs=1e-7
            )


def test_functionalize_leaves_results_and_changed_arguments_as_they_are():
    def shift_(x):
        return x.view(-1).add_(1), x * 2

    x = rushlight.zeros(2)
    moved, doubled = rushlight.func.functionalize(shift_, remove="mutations_and_views")(x)
    assert x.tolist() == moved.tolist() == [1, 1] and doubled.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="invalid argument for `remove`"):
        rushlight.func.functionalize(shift_, remove="views")


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd])
@pytest.mark.parametrize(
    ("argnums", "match"),
    [
        ((), "argnums must be non-empty"),
        (0.0, "argnums must be int or Tuple.*float"),
        ((1, 0.0), "argnums must be int or Tuple"),
        ((0, 0), "must be unique"),
        ((-1, 1), "must be unique"),
        ((0, 2), "Got argnum=2, but only 2 positional inputs"),
    ],
)
def test_argnums_that_name_no_arguments(transform, argnums, match):
    with pytest.raises(RuntimeError, match=match):
        transform(lambda a, b: (a * b).sum(), argnums=argnums)(number(1.0), number(2.0))


def test_outputs_that_are_no_tensors():
    x = number(1.0)
    for call in (
        lambda f: jvp(f, (x,), (x,)),
        lambda f: vjp(f, x),
        lambda f: jacrev(f)(x),
        lambda f: jacfwd(f)(x),
    ):
        with pytest.raises(RuntimeError, match="that has non-empty output"):
            call(lambda x: ())
        for other in (None, 1.0):
            with pytest.raises(RuntimeError, match="return only tensors, got unsupported type"):
                call(lambda x, other=other: (x, other))


def test_a_module_with_shared_parameters_as_a_function():
    from rushlight._functorch.make_functional import make_functional

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
            self.second.weight, self.bias = self.first.weight, self.first.bias

        def forward(self, x):
            return self.second(self.first(x)) + self.bias

    model, x = Tied(), rushlight.ones(1, 2)
    function, parameters = make_functional(model)
    assert len(parameters) == 2 and rushlight.equal(function(parameters, x), model(x))
    zeros = tuple(rushlight.zeros_like(p) for p in parameters)
    assert function(zeros, x).tolist() == [[0, 0]]


def changed(x):
    x.mul_(2)
    x[0] += 1
    return x.sin()


def test_forward_derivatives_of_functions_that_change_their_inputs():
    point, direction = rushlight.tensor([1.0, 2.0]), rushlight.tensor([1.0, 3.0])
    expected = (2 * point + rushlight.tensor([1.0, 0.0])).cos() * 2
    x = point.clone()
    value, tangent = rushlight.func.jvp(changed, (x,), (direction,))
    rushlight.testing.assert_close(tangent, expected * direction)
    rushlight.testing.assert_close(
        x, 2 * point + rushlight.tensor([1.0, 0.0])
    )  # as without derivatives
    rushlight.testing.assert_close(rushlight.func.jacfwd(changed)(point.clone()), expected.diag())
    rushlight.testing.assert_close(
        rushlight.func.linearize(changed, point.clone())[1](direction), tangent
    )
    several = rushlight.func.vmap(lambda x, t: rushlight.func.jvp(changed, (x,), (t,))[1])
    rushlight.testing.assert_close(
        several(point.expand(3, 2).clone(), direction.expand(3, 2))[2], tangent
    )
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        rushlight.func.grad(lambda x: changed(x).sum())(point)


def test_no_grad_does_not_concern_forward_derivatives():
    @rushlight.no_grad()
    def constant(x):
        return x.sin()

    point, one = rushlight.tensor([1.0, 2.0]), rushlight.ones(2)
    slope = point.cos()
    rushlight.testing.assert_close(rushlight.func.jvp(constant, (point,), (one,))[1], slope)
    rushlight.testing.assert_close(rushlight.func.jacfwd(constant)(point), slope.diag())
    twice = rushlight.func.jvp(
        lambda x: rushlight.func.jvp(constant, (x,), (one,))[1], (point,), (one,)
    )[1]
    rushlight.testing.assert_close(twice, -point.sin())
    rushlight.testing.assert_close(
        rushlight.func.grad(lambda x: (constant(x) * x).sum())(point), point.sin()
    )
    with rushlight.no_grad():
        rushlight.testing.assert_close(rushlight.func.jvp(constant, (point,), (one,))[1], slope)
    assert rushlight.is_grad_enabled() and not constant(point.requires_grad_()).requires_grad


def _partly_recorded(x):
    with rushlight.no_grad():
        assert not rushlight.is_grad_enabled()
        cube = x**3
        with rushlight.enable_grad():
            assert rushlight.is_grad_enabled()
    return x * cube + x**2


@pytest.mark.parametrize(
    "transforms, expected",
    [
        # To backward passes the cube is a number; it moves with x in the forward direction.
        ((grad,), lambda x: x**3 + 2 * x),
        ((jacfwd,), lambda x: 4 * x**3 + 2 * x),
        ((jacfwd, grad), lambda x: 3 * x**2 + 2),
        ((hessian,), lambda x: 3 * x**2 + 2),
        ((grad, grad), lambda x: 2 + 0 * x),
        ((jacrev, grad), lambda x: 2 + 0 * x),
        ((grad, jacfwd), lambda x: 3 * x**2 + 2),
        ((jacfwd, jacfwd), lambda x: 12 * x**2 + 2),
        ((jacfwd, hessian), lambda x: 6 * x),
        ((grad, hessian), lambda x: 0 * x),
        ((jacfwd, grad, jacfwd), lambda x: 6 * x),
    ],
)
def test_no_grad_concerns_each_level_of_nested_derivatives(transforms, expected):
    derived = _partly_recorded
    for transform in reversed(transforms):
        derived = transform(derived)
    x = rushlight.tensor(0.7, dtype=rushlight.float64)
    rushlight.testing.assert_close(derived(x), expected(x))
    assert rushlight.is_grad_enabled()


def test_views_and_leaves_of_no_grad_keep_their_history_outside():
    def f(x, weight):
        rows = x.view(2, 2)
        first = rows[0]
        with rushlight.no_grad():
            hidden = weight * 2  # the first use of a leaf
        rows.mul_(3)
        with rushlight.no_grad():
            _ = first + hidden.sum()  # the view's history is renewed here
        return (first * weight).sum() + rows.sum()

    def whole(x):
        return f(x.clone(), weight)

    x = rushlight.arange(4.0, dtype=rushlight.float64)
    weight = rushlight.tensor([2.0, 5.0], dtype=rushlight.float64, requires_grad=True)
    gradient = grad(whole)
    expected = rushlight.tensor([9.0, 18.0, 3.0, 3.0], dtype=rushlight.float64)
    rushlight.testing.assert_close(gradient(x).detach(), expected)
    rushlight.testing.assert_close(jacfwd(whole)(x).detach(), expected)
    _, tangent = jvp(gradient, (x,), (x,))
    assert not tangent.any()
    value, _ = jvp(whole, (x,), (x,))
    value.backward()
    rushlight.testing.assert_close(weight.grad, x[:2] * 3)


def test_changes_in_place_that_levels_would_see_differently_are_refused():
    def f(x):
        y = x * 2
        with rushlight.no_grad():
            y.mul_(3)
        return (y * y).sum()

    x = rushlight.ones(2, dtype=rushlight.float64)
    rushlight.testing.assert_close(jacfwd(f)(x), rushlight.full_like(x, 72.0))
    with pytest.raises(RuntimeError, match=r"mul_: inside no_grad\(\) and several transforms"):
        hessian(f)(x)
    buffer = rushlight.zeros(2, dtype=rushlight.float64)

    def average(x):
        state = buffer.clone()
        with rushlight.no_grad():
            state.mul_(0.5).add_(x**2)
            state.add_(x)
        return (state * x).sum()

    expected = rushlight.diag(2 * x + 1)
    rushlight.testing.assert_close(hessian(average)(x), expected)


def test_what_jvp_refuses():
    x, y = rushlight.ones(2), rushlight.ones(3)
    cases = [
        ((x,), (y,), RuntimeError, "different size"),
        ((x,), (x, x), RuntimeError, "same python structure"),
        (x, x, RuntimeError, "primals to be a tuple"),
        ((x,), (x.long(),), ValueError, "tangent to be floating point"),
        ((x.long(),), (x,), ValueError, "primal to be floating point"),
        ((), (), RuntimeError, "at least one Tensor"),
    ]
    for primals, tangents, error, text in cases:
        with pytest.raises(error, match=text):
            rushlight.func.jvp(rushlight.sin, primals, tangents)
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        rushlight.func.jvp(lambda x: rushlight.ones(2), (x,), (x,), strict=True)
    assert (
        rushlight.func.jvp(rushlight.sin, (x,), (x,), strict=True)[1].tolist() == x.cos().tolist()
    )


@pytest.mark.parametrize("transform", [rushlight.func.jacfwd, rushlight.func.jacrev])
def test_jacobians_of_complex_numbers_are_refused(transform):
    with pytest.raises(RuntimeError, match="all inputs to be real"):
        transform(lambda z: z.real)(rushlight.ones(2) * 1j)
    with pytest.raises(RuntimeError, match="all outputs to be real"):
        transform(lambda x: x * 1j)(rushlight.ones(2))


def test_has_aux_wants_two_values():
    x = rushlight.ones(2)
    for transform in (
        rushlight.func.grad,
        rushlight.func.grad_and_value,
        rushlight.func.jacrev,
        rushlight.func.jacfwd,
    ):
        with pytest.raises(RuntimeError, match="should be a tuple"):
            transform(lambda x: x.sum(), has_aux=True)(x)
    with pytest.raises(RuntimeError, match="should be a tuple"):
        rushlight.func.vjp(lambda x: (x, x, x), x, has_aux=True)
    with pytest.raises(RuntimeError, match="should be a tuple"):
        rushlight.func.jvp(lambda x: x, (x,), (x,), has_aux=True)


def test_stacked_modules_are_of_one_kind():
    with pytest.raises(RuntimeError, match="same class"):
        rushlight.func.stack_module_state([rushlight.nn.Linear(2, 2), rushlight.nn.ReLU()])
    with pytest.raises(RuntimeError, match="training/eval mode"):
        rushlight.func.stack_module_state(
            [rushlight.nn.Linear(2, 2), rushlight.nn.Linear(2, 2).eval()]
        )


def test_derivatives_in_inference_mode():
    cube, ones = (lambda x: (x**3).sum()), rushlight.ones(2)
    outside = rushlight.tensor([1.0, 2.0])
    with rushlight.inference_mode():
        for x in (outside, rushlight.tensor([1.0, 2.0])):
            assert rushlight.func.grad(cube)(x).tolist() == [3, 12]
            assert rushlight.func.vjp(cube, x)[1](rushlight.tensor(2.0))[0].tolist() == [6, 24]
            assert rushlight.func.jvp(cube, (x,), (ones,))[1].item() == 15
            assert rushlight.func.jacrev(rushlight.square)(x).tolist() == [[2, 0], [0, 4]]
            assert rushlight.func.hessian(cube)(x).tolist() == [[6, 0], [0, 12]]
            assert rushlight.func.linearize(cube, x)[1](ones).item() == 15
            each = rushlight.func.vmap(rushlight.func.grad(lambda a: a**3))(x)
            assert each.tolist() == [3, 12] and not each.requires_grad


def test_forward_derivatives_go_through_no_grad_in_custom_operators():
    from rushlight import library

    @library.custom_op("test_func::cube", mutates_args=())
    def cube(x: rushlight.Tensor) -> rushlight.Tensor:
        return x**3

    cube.register_autograd(
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    pattern = rushlight.eye(2, dtype=rushlight.float64).to_sparse_csr()

    def f(x):
        with rushlight.no_grad():
            return (
                cube(x)
                + pattern @ x
                + nn.functional.embedding_bag(
                    rushlight.tensor([0, 1, 1]),
                    x.unsqueeze(1),
                    rushlight.tensor([0, 1]),
                    mode="sum",
                ).squeeze(1)
            )

    x = rushlight.tensor([2.0, 3.0], dtype=rushlight.float64)
    rushlight.testing.assert_close(
        jacfwd(f)(x), rushlight.diag(3 * x**2 + 2 + rushlight.tensor([0.0, 1.0], dtype=x.dtype))
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda t: rushlight.nn.functional.cosine_similarity(t, 2 - t * t, dim=-1),
        lambda t: rushlight.nn.functional.gaussian_nll_loss(t, 1 - t, t * t, reduction="sum"),
    ],
    ids=["cosine_similarity", "gaussian_nll_loss"],
)
def test_bounds_that_concern_values_alone(function):
    """Levels of transforms see the same derivatives of what is bounded, which is 1 everywhere."""
    x = rushlight.linspace(-1, 1, 6, dtype=rushlight.float64).reshape(2, 3)

    def slope(t):
        return grad(lambda s: function(s).sum())(t)

    pushed = jvp(slope, (x,), (x.cos(),))[1]
    (pulled,) = vjp(slope, x)[1](x.cos())
    rushlight.testing.assert_close(pushed, pulled)  # second derivatives are symmetric
    near = [slope(x + sign * 1e-6 * x.cos()) for sign in (1, -1)]
    rushlight.testing.assert_close(pushed, (near[0] - near[1]) / 2e-6, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "point"),
    [
        (lambda t: rushlight.linalg.vector_norm(t), [0.0, 0.0]),
        (lambda t: rushlight.linalg.vector_norm(t, dim=0), [0.0]),
        (lambda t: t.pow(rushlight.zeros_like(t)).sum(), [0.0, 1.0]),
        (lambda t: rushlight.zeros_like(t).pow(t).sum(), [0.0, 1.0]),
        (lambda t: t.std(), [2.0, 2.0]),
    ],
    ids=["norm", "norm of a dim", "base", "exponent", "std"],
)
def test_what_is_masked_has_derivatives(function, point):
    """Where a derivative is taken as 0, so are those of it, forward and backward."""
    x = number(point)
    for derivative in (lambda t: function(t), grad(function)):
        value, pushed = jvp(derivative, (x,), (rushlight.ones_like(x),))
        assert value.isfinite().all() and not pushed.any()
    assert not vjp(grad(function), x)[1](rushlight.ones_like(x))[0].any()


# ---- what a function changes in place


def changed_by_constant(y, x):
    y.add_(1)


def changed_by_input(y, x):
    y.copy_(x)


def changed_by_operator(y, x):
    y *= x


def changed_by_power(y, x):
    y **= 2


def changed_at_index(y, x):
    y[0] = 1.0


def changed_at_mask(y, x):
    y[y > 0] = 1.0


def changed_by_view(y, x):
    y[1:].zero_()


def changed_by_function(y, x):
    nn.functional.relu(y, inplace=True)


def changed_without_graph(y, x):
    with rushlight.no_grad():
        y.mul_(2)


def changed_by_random_numbers(y, x):
    y.normal_()


def changed_past_detach(y, x):
    y.detach().add_(1)


CHANGES = [value for name, value in list(globals().items()) if name.startswith("changed_")]
RUNS = {
    "grad": lambda f, x: grad(lambda x: f(x).sum())(x),
    "vjp": lambda f, x: vjp(f, x),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "linearize": lambda f, x: linearize(f, x),
    "grad of vmap": lambda f, x: grad(lambda xs: vmap(f)(xs).sum())(x.expand(2, -1)),
    "vmap of grad": lambda f, x: vmap(grad(lambda x: f(x).sum()))(x.expand(2, -1)),
    "inner grad": lambda f, x: jacrev(grad(lambda x: f(x).sum()))(x),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("run", RUNS)
def test_a_tensor_of_the_outside_is_not_changed(run, change):
    y = rushlight.tensor([1.0, -2.0, 3.0])
    before = y.clone()

    def f(x):
        change(y, x)
        return x * y

    with pytest.raises(RuntimeError, match=r"mutate a captured Tensor|vmap"):
        RUNS[run](f, rushlight.tensor([1.0, 2.0, 3.0]))
    assert y.equal(before) and not y.requires_grad
    change(y, before)  # outside, it is


@pytest.mark.parametrize("change", CHANGES)
def test_a_tensor_of_its_own_is_changed(change):
    def f(x):
        y = rushlight.zeros(3) + 1
        rushlight.manual_seed(0)
        change(y, x)
        return x * y

    x = rushlight.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (expected,) = rushlight.autograd.grad(f(x).sum(), x)
    x = x.detach()
    assert grad(lambda x: f(x).sum())(x).equal(expected)
    assert jacrev(f)(x).sum(0).equal(expected) and jacfwd(f)(x).sum(0).equal(expected)


def test_an_inner_function_does_not_change_what_the_outer_one_made():
    def outer(x):
        y = x * 2
        grad(lambda z: (y.mul_(2) * z).sum())(x)
        return y.sum()

    with pytest.raises(RuntimeError, match="mutate a captured Tensor of shape"):
        grad(outer)(rushlight.ones(3))


def test_arguments_are_changed_and_stay_the_callers():
    mean, x = rushlight.zeros(3), rushlight.tensor([1.0, 2.0, 3.0])

    def f(x, mean, *, count):
        mean.mul_(0.5).add_(x.detach(), alpha=0.5)
        mean.add_(mean)
        count += 1
        return (x * x).sum()

    count = rushlight.tensor(0)
    assert grad(f)(x, mean, count=count).tolist() == [2, 4, 6]
    assert mean.tolist() == [1, 2, 3] and count.item() == 1
    with pytest.raises(RuntimeError, match="captured"):
        grad(lambda x: f(x, mean, count=count))(x)
    assert mean.tolist() == [1, 2, 3]
    means = rushlight.zeros(2, 3)
    vmap(grad(lambda x, mean: f(x, mean, count=rushlight.tensor(0))))(x.expand(2, -1), means)
    assert means.tolist() == [[1, 2, 3]] * 2


def test_results_of_one_run_are_of_the_outside_in_the_next():
    x = rushlight.ones(3)
    found, (value, aux) = grad_and_value(lambda x: ((x * x).sum(), x * 2), has_aux=True)(x)
    for result in (found, value, aux):
        result.add_(1)
        with pytest.raises(RuntimeError, match="captured"):
            grad(lambda x, result=result: x.sum() + result.add_(1).sum())(x)

    def outer(x):  # and an inner run's are the outer one's own
        inner = grad(lambda z: (z * z).sum())(x)
        return inner.mul_(3).sum()

    assert grad(outer)(x).tolist() == [6, 6, 6]


def test_running_statistics_of_a_captured_module_are_refused():
    norm, x = nn.BatchNorm1d(3), rushlight.randn(4, 3)
    parameters, buffers = dict(norm.named_parameters()), dict(norm.named_buffers())

    def f(parameters, buffers):
        return functional_call(norm, (parameters, buffers), x).square().sum()

    with pytest.raises(RuntimeError, match="captured"):
        grad(lambda p: f(p, buffers))(parameters)
    grad(f)(parameters, buffers)
    assert buffers["num_batches_tracked"].item() == 1


def test_out_is_written_wherever_it_is_from():
    y, x = rushlight.zeros(3), rushlight.ones(3)
    assert grad(lambda x: rushlight.add(y, 1, out=y).sum() + x.sum())(x).tolist() == [1, 1, 1]
    assert y.tolist() == [1, 1, 1]


@pytest.mark.parametrize("transform", ["vjp", "linearize"])
def test_what_a_product_records_the_call_of_it_says(transform):
    x = number(X, requires_grad=True)

    def product():
        f = vjp(rushlight.square, x)[1] if transform == "vjp" else linearize(rushlight.square, x)[1]
        return lambda: f(number(1.0))[0] if transform == "vjp" else f(number(1.0))

    call = product()
    with rushlight.no_grad():
        assert not call().requires_grad
    assert call().requires_grad


KEEPING = {  # layers that keep statistics, or vectors, of what they have seen
    "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)),
    "older spectral_norm": lambda: nn.utils.spectral_norm(nn.Linear(3, 3)),
    "instance_norm": lambda: nn.InstanceNorm1d(3, track_running_stats=True, affine=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KEEPING)
def test_layers_keep_what_they_have_seen(name):
    layer, x = KEEPING[name](), rushlight.randn(4, 3, 3)
    parameters = {key: one.detach() for key, one in layer.named_parameters()}
    for one in layer.buffers():  # vectors that have converged would stay what they are
        if one.is_floating_point():
            one.uniform_(0.5, 1)
    before = {key: one.clone() for key, one in layer.named_buffers()}
    found = grad(lambda p: functional_call(layer, p, (x,)).square().sum())(parameters)
    assert found.keys() == parameters.keys()
    after = dict(layer.named_buffers())
    assert any(not after[key].equal(one) for key, one in before.items())
    assert not any(one.requires_grad for one in after.values())
