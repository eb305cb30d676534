"""Dual numbers: every row of the op table in forward mode, views and in-place ops, custom
Functions, func.jvp."""

import pytest
from table import cases
from test_ops_gradients import (
    DIFFERENTIABLE,
    complex_works,
    problem,
    redefines_gradient,
    takes_complex,
)

import rushlight as rl
import rushlight.autograd.forward_ad as fwAD
from rushlight.autograd import gradcheck
from rushlight.func import hessian, jacfwd, jacrev, jvp, linearize

pytestmark = pytest.mark.filterwarnings("ignore")


def check(op, number, dtype):
    if redefines_gradient(op, number):
        pytest.skip("an argument of the sample says that the gradient is another one")
    found = problem(op, number, dtype)
    if found is None or not found[0](*found[1]):
        pytest.skip("nothing has a gradient")
    run, inputs = found
    assert gradcheck(
        run, inputs, check_forward_ad=True, check_backward_ad=False, check_undefined_grad=False
    )


@pytest.mark.parametrize(("op", "number"), cases(DIFFERENTIABLE))
def test_rows(op, number):
    check(op, number, "float64")


@pytest.mark.parametrize(("op", "number"), cases(op for op in DIFFERENTIABLE if takes_complex(op)))
def test_complex_rows(op, number):
    if op.row.kind != "elementwise" and not complex_works(op, number):
        pytest.skip("the kernel takes no complex numbers")
    check(op, number, "complex128")


def tangent_of(t):
    return fwAD.unpack_dual(t).tangent


def dual(values, direction):
    return fwAD.make_dual(rl.tensor(values), rl.tensor(direction))


def test_a_level_ends():
    x, v = rl.ones(2), rl.tensor([1.0, 2.0])
    with fwAD.dual_level():
        y = fwAD.make_dual(x, v)
        assert tangent_of(y) is v and tangent_of(x) is None
        z = y * 3
        assert tangent_of(z).tolist() == [3.0, 6.0]
    assert tangent_of(y) is None and tangent_of(z) is None
    assert fwAD.unpack_dual(y).primal.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(x, v)
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.exit_dual_level()
    with fwAD.dual_level():
        assert tangent_of(y * 2) is None
        with pytest.raises(RuntimeError, match="Nested"):
            fwAD.enter_dual_level()
        with pytest.raises(ValueError, match="floating point"):
            fwAD.make_dual(rl.ones(2, dtype=rl.int64), v)
        with pytest.raises(RuntimeError, match="shape"):
            fwAD.make_dual(x, rl.ones(3))


def test_views_share_the_tangent():
    with fwAD.dual_level():
        x = dual([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]])
        row, column = x[0], x.t()[1]
        assert tangent_of(row).tolist() == [1.0, 0.0] and tangent_of(column).tolist() == [0.0, 1.0]
        row.mul_(2)
        assert x.tolist() == [[2.0, 4.0], [3.0, 4.0]]
        assert tangent_of(x).tolist() == [[2.0, 0.0], [0.0, 1.0]]
        assert tangent_of(column).tolist() == [0.0, 1.0]
        assert [tangent_of(part).tolist() for part in x.unbind()] == [[2.0, 0.0], [0.0, 1.0]]


def test_writing_a_dual_makes_a_dual():
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, -1.0])
        held = rl.zeros(2, 2)
        held[1] = x * x
        assert tangent_of(held).tolist() == [[0.0, 0.0], [2.0, -4.0]]
        held.add_(x)
        assert tangent_of(held).tolist() == [[1.0, -1.0], [3.0, -5.0]]
        held.zero_()
        assert tangent_of(held).tolist() == [[0.0, 0.0], [0.0, 0.0]]
        kept = rl.nn.functional.relu(x * 1, True)
        assert tangent_of(kept).tolist() == [1.0, -1.0]
        with pytest.raises(RuntimeError, match="out="):
            rl.add(x, x, out=rl.empty(2))


def test_what_has_no_tangent():
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, -1.0])
        assert tangent_of(x.detach()) is None and tangent_of(x > 1) is None
        assert tangent_of(x.argmax()) is None and x.shape == (2,) and float(x[0]) == 1.0
        values, places = (x * 2).sort(descending=True)
        assert tangent_of(values).tolist() == [-2.0, 2.0] and tangent_of(places) is None
        with rl.no_grad():
            assert tangent_of(x.exp()) is not None
        assert not (x * 2).requires_grad


def test_dropout_drops_the_same_of_the_tangent():
    with fwAD.dual_level():
        x = fwAD.make_dual(rl.ones(50), rl.full((50,), 3.0))
        y = rl.nn.functional.dropout(x, 0.5)
        assert tangent_of(y).tolist() == (y * 3).tolist()
        z = rl.nn.functional.dropout(x * 1, 0.5, True, True)
        assert tangent_of(z).tolist() == (z * 3).tolist()


def test_backward_over_forward():
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    v = rl.tensor([1.0, 1.0], requires_grad=True)
    with fwAD.dual_level():
        y = (fwAD.make_dual(x, v) ** 3).sum()
        slope = tangent_of(y)
        by_x, by_v = rl.autograd.grad(slope, (x, v), retain_graph=True)
        (plain,) = rl.autograd.grad(y, x)
    assert slope.item() == 15.0
    assert (
        by_x.tolist() == [6.0, 12.0]
        and by_v.tolist() == [3.0, 12.0]
        and plain.tolist() == [3.0, 12.0]
    )


class Twice(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    @staticmethod
    def jvp(ctx, move_x, move_y):
        x, y = ctx.saved_tensors
        return 10 * move_x * y + 10 * move_y * x  # zeros for what does not move


class Plain(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_custom_functions_have_their_own():
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, -1.0])
        y = Twice.apply(x, rl.tensor([3.0, 4.0]))
        assert y.tolist() == [3.0, 8.0] and tangent_of(y).tolist() == [30.0, -40.0]  # as jvp says
        assert Plain.apply(rl.ones(2)).tolist() == [2.0, 2.0]
        with pytest.raises(NotImplementedError, match="Plain: You must implement the jvp"):
            Plain.apply(x)


class Several(rl.autograd.Function):
    """A view, no tensor, a result without derivative, and one that is computed."""

    @staticmethod
    def forward(x, number, how="views"):
        return x[1:], "no tensor", x.argmax(), x * number.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, number, ctx.how = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(number)
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def jvp(ctx, move, move_number, move_how):
        (number,) = ctx.saved_tensors
        assert move_number is None and move_how is None  # integers do not move
        part = move[1:].clone() if ctx.how == "copies" else move[1:]
        fixed = move if ctx.how == "moves what is fixed" else None
        return part, None, fixed, move * number.sum()


def test_what_jvp_takes_and_returns_by_output():
    number = rl.tensor([2, 3])
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, -1.0])
        part, text, place, product = Several.apply(x, number)
        assert tangent_of(part).tolist() == [-1.0] and tangent_of(part)._base is tangent_of(x)
        assert text == "no tensor" and tangent_of(place) is None
        assert tangent_of(product).tolist() == [5.0, -5.0]
        with pytest.raises(RuntimeError, match="Several.*view.*output 0.*not returning a view"):
            Several.apply(x, number, "copies")
        with pytest.raises(RuntimeError, match="position 2.*return None"):
            Several.apply(x, number, "moves what is fixed")


class InPlace(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, moves_in_place):
        ctx.moves_in_place = moves_in_place
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad, None

    @staticmethod
    def jvp(ctx, move, _):
        return move.mul_(3) if ctx.moves_in_place else move * 3


@pytest.mark.parametrize("requires_grad", [False, True])
def test_jvp_of_a_function_that_changes_its_input(requires_grad):
    with fwAD.dual_level():
        for in_place in (True, False):
            x = rl.ones(2, requires_grad=requires_grad) * 1
            x = fwAD.make_dual(x, rl.tensor([1.0, 2.0])) * 1
            tangent = tangent_of(x)
            if in_place:
                assert InPlace.apply(x, True) is x and tangent_of(x) is tangent
                assert x.tolist() == [3, 3] and tangent.tolist() == [3, 6]
            else:
                with pytest.raises(RuntimeError, match="InPlace.*modify.*gradient inplace"):
                    InPlace.apply(x, False)


class WithoutZeros(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x + y

    @staticmethod
    def jvp(ctx, move_x, move_y):
        assert move_y is None
        return move_x * 1


def test_jvp_gets_none_where_it_wants_no_zeros():
    with fwAD.dual_level():
        x = dual([1.0], [4.0])
        assert tangent_of(WithoutZeros.apply(x, rl.ones(1))).tolist() == [4.0]


def test_modules():
    rl.manual_seed(0)
    net = rl.nn.Sequential(
        rl.nn.Linear(3, 4), rl.nn.Tanh(), rl.nn.LayerNorm(4), rl.nn.Linear(4, 1)
    ).double()
    x, v = rl.randn(2, 3, dtype=rl.float64), rl.randn(2, 3, dtype=rl.float64)
    with fwAD.dual_level():
        forward = tangent_of(net(fwAD.make_dual(x, v)))
    step = 1e-6
    difference = (net(x + step * v) - net(x - step * v)) / (2 * step)
    assert rl.allclose(forward, difference, atol=1e-7)


def function(x, y):
    return x.sin() * y.sum(), x @ y


def test_jvp_and_its_kin():
    x, y = rl.randn(3, dtype=rl.float64), rl.randn(3, dtype=rl.float64)
    forward, backward = jacfwd(function, (0, 1))(x, y), jacrev(function, (0, 1))(x, y)
    for a, b in zip(forward, backward):
        assert all(rl.allclose(p, q) for p, q in zip(a, b))
    v = rl.ones_like(x)
    value, moved = jvp(function, (x, y), (v, y))
    same, push = linearize(function, x, y)
    assert all(rl.equal(a, b) for a, b in zip(value, same))
    assert all(rl.allclose(a, b) for a, b in zip(moved, push(v, y)))
    assert rl.allclose(moved[1], v @ y + x @ y)
    assert rl.allclose(hessian(lambda x: (x**3).sum())(x), rl.diag(6 * x))
    nested = jvp(lambda x: jvp(lambda x: x**3, (x,), (v,))[1], (x,), (v,))[1]
    assert rl.allclose(nested, 6 * x)
    assert jacfwd(lambda x: rl.ones(2))(x).tolist() == [[0.0] * 3] * 2


FLOATING = [rl.float16, rl.bfloat16, rl.float32, rl.float64]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("other", FLOATING)
def test_tangents_of_another_precision(dtype, other):
    for primal in (rl.ones(2, 3, dtype=dtype), rl.ones(3, 2, dtype=dtype).t()):
        with fwAD.dual_level():
            dual = fwAD.make_dual(primal, rl.full((2, 3), 2, dtype=other))
            assert fwAD.unpack_dual(dual).tangent.dtype is other
            results = ((dual * 3, 6), (dual.t(), 2), (dual.sin(), None), (dual.sum(), 12))
            for result, slope in results:
                value, tangent = fwAD.unpack_dual(result)
                assert value.dtype is dtype and tangent.shape == value.shape
                assert slope is None or (tangent == slope).all()
    with fwAD.dual_level(), pytest.raises(RuntimeError, match="shape"):
        fwAD.make_dual(rl.ones(2), rl.ones(3))


def test_a_tangent_has_no_tangent_of_its_own():
    with fwAD.dual_level():
        moving = dual([1.0], [2.0])
        with pytest.raises(RuntimeError, match="make_dual: .*itself has a forward gradient"):
            fwAD.make_dual(rl.ones(1), moving)
        with pytest.raises(RuntimeError, match="different size than the tensor.*shape .3,."):
            fwAD.make_dual(rl.ones(2), rl.ones(3))


FUNCTIONS = {
    "product": lambda x, w: (x @ w).tanh(),
    "linear": lambda x, w: rl.nn.functional.linear(x, w.t()) ** 2,
    "convolution": lambda x, w: rl.nn.functional.conv1d(x[None], w[:, :, None]),
    "norm": lambda x, w: rl.nn.functional.layer_norm(x, (3,), w[0]),
    "softmax": lambda x, w: x.softmax(-1) * w,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_have_tangents(name):
    rl.manual_seed(0)
    function = FUNCTIONS[name]
    x, w = (rl.rand(3, 3, dtype=rl.float64, requires_grad=True) for _ in range(2))
    direction, turn = rl.randn(3, 3).double(), rl.randn(3, 3).double()
    weight = rl.randn(function(x, w).shape, dtype=rl.float64)

    def gradients(step):
        point = [x.detach() + step * direction, w.detach()]
        point = [p.requires_grad_() for p in point]
        moved = weight + step * turn.reshape(weight.shape)
        return rl.autograd.grad(function(*point), point, moved)

    expected = [(a - b) / 2e-6 for a, b in zip(gradients(1e-6), gradients(-1e-6))]
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, direction)
        moved = fwAD.make_dual(weight, turn.reshape(weight.shape))
        found = rl.autograd.grad(function(dual, w), (dual, w), moved, create_graph=True)
        tangents = [fwAD.unpack_dual(g).tangent.detach() for g in found]
    for tangent, value in zip(tangents, expected):
        assert rl.allclose(tangent, value, atol=1e-6)


def test_gradgradcheck_forward_over_reverse():
    x, w = (rl.rand(3, 3, dtype=rl.float64, requires_grad=True) for _ in range(2))
    for function in FUNCTIONS.values():
        assert rl.autograd.gradgradcheck(function, (x, w), check_fwd_over_rev=True)


CUBES = {
    "power": lambda x: x**3,
    "product": lambda x: x * x * x,
    "in place": lambda x: (x * x).mul_(x),
    "through a view": lambda x: (x.view(-1) ** 2) * x,
}


@pytest.mark.parametrize("function", CUBES.values(), ids=CUBES)
@pytest.mark.parametrize("create_graph", [False, True])
def test_forward_over_backward(function, create_graph):
    x = rl.tensor([0.5, 2.0], dtype=rl.float64, requires_grad=True)
    direction = rl.tensor([1.0, 3.0], dtype=rl.float64)
    weight = rl.tensor([1.0, -1.0], dtype=rl.float64)
    moved = rl.tensor([2.0, 5.0], dtype=rl.float64)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, direction)
        given = fwAD.make_dual(weight, moved)
        out = function(dual)
        (by_dual,) = rl.autograd.grad(
            out, dual, given, retain_graph=True, create_graph=create_graph
        )
        (by_leaf,) = rl.autograd.grad(out, x, given, create_graph=create_graph)
        for gradient in (by_dual, by_leaf):
            expected = 6 * x * direction * weight + 3 * x**2 * moved
            assert rl.allclose(fwAD.unpack_dual(gradient).tangent, expected)
            assert rl.allclose(gradient, 3 * x**2 * weight)
            assert gradient.requires_grad == create_graph


def test_forward_over_backward_of_parameters():
    data = rl.tensor([0.5, 2.0], dtype=rl.float64)
    weight = rl.tensor([3.0, 1.0], dtype=rl.float64, requires_grad=True)
    with fwAD.dual_level():
        dual = fwAD.make_dual(data, rl.tensor([1.0, 1.0], dtype=rl.float64))
        hidden = dual.sin()  # has no graph
        loss = (hidden * weight**2).sum()
        (gradient,) = rl.autograd.grad(loss, weight)
        tangent = fwAD.unpack_dual(gradient).tangent
    assert rl.allclose(tangent, 2 * weight * data.cos())
    found = rl.autograd.gradgradcheck(
        lambda a, b: a * b.sin(),
        (data.clone().requires_grad_(), weight),
        check_fwd_over_rev=True,
        check_rev_over_rev=False,
        gen_non_contig_grad_outputs=True,
    )
    assert found


def test_views_of_several_duals():
    one = rl.ones(2)
    with fwAD.dual_level():
        given = fwAD.make_dual(one, one * 2), one.clone(), fwAD.make_dual(one.clone(), one * 3)
        for function in (rl.atleast_2d, rl.atleast_3d, rl.broadcast_tensors):
            tangents = [fwAD.unpack_dual(out).tangent for out in function(*given)]
            assert tangents[1] is None
            assert [t.flatten().tolist() for t in (tangents[0], tangents[2])] == [[2, 2], [3, 3]]


def test_views_made_before_their_base_moves():
    with fwAD.dual_level():
        base = rl.zeros(2, 2)
        turned, row = base.t(), base[0]
        row.copy_(fwAD.make_dual(rl.ones(2), rl.tensor([3.0, 4.0])))
        assert fwAD.unpack_dual(base).tangent.tolist() == [[3, 4], [0, 0]]
        assert fwAD.unpack_dual(turned).tangent.tolist() == [[3, 0], [4, 0]]
        turned.mul_(2)
        assert fwAD.unpack_dual(row).tangent.tolist() == [6, 8]


def test_duals_are_printed_with_their_tangents():
    with fwAD.dual_level():
        dual = fwAD.make_dual(rl.ones(1), rl.tensor([2.0]))
        assert repr(dual * 3) == "tensor([3.], tangent=tensor([6.]))"
    assert repr(dual) == "tensor([1.])"


class ByNumbers(rl.autograd.Function):
    """Computes outside of operations, so that only its own rules know its derivatives."""

    @staticmethod
    def forward(ctx, x, power):
        ctx.power = power
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return rl.tensor([v**power for v in x.tolist()])

    @staticmethod
    def slope(ctx):
        (x,) = ctx.saved_tensors
        return rl.tensor([ctx.power * v ** (ctx.power - 1) for v in x.tolist()])

    @staticmethod
    def backward(ctx, grad):
        slopes = ByNumbers.slope(ctx).tolist()
        return rl.tensor([g * s for g, s in zip(grad.tolist(), slopes)]), None

    @staticmethod
    def jvp(ctx, move, move_power):
        assert move_power is None
        return move * ByNumbers.slope(ctx)


def test_func_jvp_goes_by_the_functions_own_jvp():
    x, v = rl.tensor([1.0, 2.0]), rl.tensor([1.0, -1.0])
    value, moved = jvp(lambda x: ByNumbers.apply(x * 2, 3) * 5, (x,), (v,))
    assert value.tolist() == [40.0, 320.0] and moved.tolist() == [120.0, -480.0]
    assert jvp(lambda x: Twice.apply(x, x + 2), (x,), (v,))[1].tolist() == [40.0, -60.0]
    assert jvp(lambda x: Twice.apply(x, v), (x,), (v,))[1].tolist() == [10.0, 10.0]
    assert jacfwd(lambda x: Twice.apply(x, v))(x).tolist() == [[10.0, 0.0], [0.0, -10.0]]
    assert jvp(lambda x: InPlace.apply(x * 1, True), (x,), (v,))[1].tolist() == [3.0, -3.0]
    assert jvp(lambda x: WithoutZeros.apply(x, v), (x,), (v,))[1].tolist() == v.tolist()
    assert v.tolist() == [1.0, -1.0]
    slope = rl.func.grad(lambda x: jvp(lambda y: Twice.apply(y, y), (x,), (v,))[1].sum())(x)
    assert slope.tolist() == [20.0, -20.0]  # of 10 v x + 10 v x
    assert rl.func.grad(lambda x: Twice.apply(x, v).sum())(x).tolist() == v.tolist()


def test_func_jvp_of_a_function_without_backward():
    number = rl.tensor([2, 3])
    x, v = rl.tensor([1.0, 2.0]), rl.tensor([1.0, -1.0])
    part, product = jvp(lambda x: Several.apply(x, number)[::3], (x,), (v,))[1]
    assert part.tolist() == [-1.0] and product.tolist() == [5.0, -5.0]
