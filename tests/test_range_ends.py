"""Results at the ends of a dtype's range, and gradients with and without create_graph."""

import math

import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels


def both_gradients(function, values):
    x = rl.tensor(values, requires_grad=True)
    y = function(x).sum()
    (plain,) = rl.autograd.grad(y, x, retain_graph=True)
    (recorded,) = rl.autograd.grad(y, x, create_graph=True)
    return plain, recorded.detach()


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1e-42, 1.0, 1e30])
def test_deviation_of_floats_whose_squares_leave_their_range(scale, across):
    x = rl.tensor([1.0, 2.0, 3.0, 6.0]) * scale
    rows = x.expand(5, 4).contiguous()
    found = rows.t().contiguous().std(0) if across else rows.std(1)
    assert rl.allclose(found.double(), x.double().std().expand(5), 1e-5, 1e-44)


def test_deviation_of_the_largest_numbers():
    largest = rl.finfo(rl.float32).max
    assert rl.tensor([largest, largest, largest]).std() == 0
    assert rl.tensor([largest, 1.0]).std().item() == pytest.approx(largest / math.sqrt(2))
    assert rl.tensor([math.inf, 1.0]).std().isnan() and rl.tensor([math.nan, 1.0]).std().isnan()


@pytest.mark.parametrize(
    "values",
    [
        [1.0, math.inf, 2.0],
        [-math.inf, 1.0, math.inf],
        [math.inf, 1.0],
        [1.0, math.nan],
        [0.0, 1.0],
    ],
)
def test_gradient_of_logcumsumexp_is_one(values):
    plain, recorded = both_gradients(lambda x: x.logcumsumexp(0), values)
    assert rl.allclose(plain, recorded, equal_nan=True)


def test_gradient_of_logcumsumexp_before_an_infinity():
    plain, _ = both_gradients(lambda x: x.logcumsumexp(0), [1.0, math.inf, 2.0])
    assert plain[0] == 1 and plain[1].isnan() and plain[2] == 0


@pytest.mark.parametrize("p", [1, 2, 3])
def test_gradient_of_renorm_of_what_stays(p):
    plain, recorded = both_gradients(
        lambda x: x.renorm(p, 0, 1.0), [[1.0, math.nan], [0.0, 0.0], [3.0, 4.0]]
    )
    assert rl.equal(plain[:2], rl.ones(2, 2)) and rl.allclose(plain, recorded)


def test_halves_whose_squares_overflow():
    x = rl.tensor([[60000.0, 60000.0]], dtype=rl.float16)
    assert rl.allclose(x.renorm(2, 0, 1.0).float(), rl.full((1, 2), 0.7071), 1e-2)
    assert rl.allclose((rl.tensor([256.0], dtype=rl.float16) ** -2).float(), rl.tensor(2.0**-16))


def test_second_derivative_of_log_ndtr():
    x = rl.tensor([-20.0, -1.0, 0.0, 0.999, 1.0, 5.0, 14.0, 100.5, 1e30], requires_grad=True)
    (first,) = rl.autograd.grad(rl.special.log_ndtr(x).sum(), x, create_graph=True)
    (second,) = rl.autograd.grad(first.sum(), x)
    assert rl.allclose(second, -first * (first + x).detach(), 2e-3, 1e-6)  # the hazard's rule
    assert (second[-2:] == 0).all() and not second.isnan().any()


def test_gradient_of_float_power_is_of_doubles():
    x = rl.tensor([1e-38], dtype=rl.float64, requires_grad=True)
    (slope,) = rl.autograd.grad(rl.float_power(x, 0.1).sum(), x)
    assert slope.item() == pytest.approx(0.1 * 1e-38**-0.9, rel=1e-12)


def test_margin_losses_have_no_gradient_at_the_kink():
    x = rl.tensor([[1.0, 0.0, 0.0]], requires_grad=True)
    rl.nn.functional.multi_margin_loss(x, rl.tensor([0])).backward()
    rl.nn.functional.multilabel_margin_loss(x, rl.tensor([[0, -1, -1]])).backward()
    assert rl.equal(x.grad, rl.zeros(1, 3))


@pytest.mark.parametrize("dtype", [rl.complex64, rl.complex128])
def test_complex_products_have_the_same_bits_everywhere(dtype):
    x, y = rl.randn(37, dtype=dtype), rl.randn(37, dtype=dtype)
    alone = rl.stack([x[i] * y[i] for i in range(37)])
    assert rl.equal(x * y, alone)
    pairs = rl.stack([x, y])
    assert rl.equal(pairs.prod(0), alone) and rl.equal(pairs.t().contiguous().prod(1), alone)
