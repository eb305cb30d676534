"""cdist and pdist beside SciPy's, for the sizes at which the kernels change their ways."""

import numpy as np
import pytest
from scipy.spatial import distance

import rushlight
from rushlight import _C
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.func import vmap

pytestmark = pytest.mark.kernels

ORDERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")]
# (n, m, d): single ones, parts of a vector and of a panel, several panels, several parts of d.
SIZES = [(1, 1, 1), (3, 5, 2), (10, 70, 33), (65, 64, 40), (130, 17, 3), (70, 129, 300),
         (270, 2, 1)]  # fmt: skip


def without_product(a, b, p):
    return rushlight.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist")


def expected_distances(a, b, p):
    if p == 0:
        return (a[:, None] != b).sum(-1).astype(a.dtype)
    if np.isinf(p):
        return distance.cdist(a, b, "chebyshev").astype(a.dtype)
    if p < 1:  # SciPy refuses it
        return (np.abs(a[:, None] - b) ** p).sum(-1) ** (1 / p)
    return distance.cdist(a, b, "minkowski", p=p).astype(a.dtype)


def rows_of(generator, n, m, d, dtype):
    """Two lists of rows, which share one row and an element of another."""
    a, b = generator.standard_normal((n, d)), generator.standard_normal((m, d))
    b[0] = a[0]
    b[-1, 0] = a[-1, 0]
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances(dtype, p, size):
    a, b = rows_of(np.random.default_rng(0), *size, dtype)
    tolerance = {"rtol": 2e-5 if dtype == "float32" else 1e-11, "atol": 1e-6}
    found = without_product(rushlight.tensor(a), rushlight.tensor(b), p).numpy()
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected_distances(a, b, p), **tolerance)
    own = rushlight.pdist(rushlight.tensor(a), p).numpy()
    above = np.triu_indices(len(a), 1)
    np.testing.assert_allclose(own, expected_distances(a, a, p)[above], **tolerance)


def slope(difference, far, p):
    """The derivative of a distance by a difference."""
    if np.isinf(p):
        return np.sign(difference) * (np.abs(difference) == far)
    with np.errstate(all="ignore"):
        power = np.sign(difference) * np.abs(difference) ** (p - 1) / far ** (p - 1)
    return np.where((far == 0) | (difference == 0), 0, power)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("p", ORDERS)
def test_gradients(p, size):
    generator = np.random.default_rng(1)
    a, b = rows_of(generator, *size, "float64")
    x, y = (rushlight.tensor(rows).requires_grad_() for rows in (a, b))

    weight = generator.standard_normal((size[0], size[1]))
    (without_product(x, y, p) * rushlight.tensor(weight)).sum().backward()
    far = expected_distances(a, b, p)[..., None]
    slopes = 0 if p == 0 else weight[..., None] * slope(a[:, None] - b, far, p)
    slopes = np.broadcast_to(slopes, (*weight.shape, size[2]))
    np.testing.assert_allclose(x.grad.numpy(), slopes.sum(1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(y.grad.numpy(), -slopes.sum(0), rtol=1e-9, atol=1e-9)

    weight = np.triu(generator.standard_normal((len(a), len(a))), 1)
    x.grad = None
    own = rushlight.tensor(weight[np.triu_indices(len(a), 1)])
    (rushlight.nn.functional.pdist(x, p) * own).sum().backward()
    far = expected_distances(a, a, p)[..., None]
    slopes = 0 if p == 0 else (weight + weight.T)[..., None] * slope(a[:, None] - a, far, p)
    slopes = np.broadcast_to(slopes, (*weight.shape, size[2]))
    np.testing.assert_allclose(x.grad.numpy(), slopes.sum(1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, float("inf")])
def test_gradients_of_gradients(p):
    a = rushlight.randn(4, 3, dtype=rushlight.float64, requires_grad=True)
    b = rushlight.randn(2, 5, 3, dtype=rushlight.float64, requires_grad=True)
    for function, rows in ((lambda *x: without_product(*x, p), (a, b)),
                           (lambda x: rushlight.pdist(x, p), (a,))):  # fmt: skip
        assert gradcheck(function, rows)
        assert gradgradcheck(function, rows)
        out = function(*rows)
        plain = rushlight.autograd.grad(out.sum(), rows, retain_graph=True)
        recorded = rushlight.autograd.grad(out.sum(), rows, create_graph=True)
        assert all(map(rushlight.allclose, plain, recorded))


def test_second_gradient_at_distance_zero():
    a = rushlight.ones(3, 2, dtype=rushlight.float64, requires_grad=True)
    for p in (1.5, 2.0, 3.0):
        (first,) = rushlight.autograd.grad(rushlight.pdist(a, p).sum(), a, create_graph=True)
        (second,) = rushlight.autograd.grad(first.sum(), a)
        assert not first.any() and not second.any()


def test_batches_are_broadcast():
    a, b = rushlight.randn(2, 1, 6, 3, requires_grad=True), rushlight.randn(4, 5, 3)
    found = without_product(a, b, 1.0)
    assert found.shape == (2, 4, 6, 5)
    rushlight.testing.assert_close(found[1, 2], without_product(a[1, 0], b[2], 1.0))
    found.sum().backward()
    each = [rushlight.autograd.grad(without_product(a, one, 1.0).sum(), a)[0] for one in b]
    rushlight.testing.assert_close(a.grad, sum(each))


def test_strided_and_expanded_rows():
    wide = rushlight.randn(7, 12, 2)
    a, b = wide[::2, 1::3, 0], wide[0].t()[:1].expand(3, 12)[:, ::3]
    rushlight.testing.assert_close(
        without_product(a, b, 1.0), without_product(a.contiguous(), b.contiguous(), 1.0)
    )
    rushlight.testing.assert_close(rushlight.pdist(a), rushlight.pdist(a.contiguous()))


@pytest.mark.parametrize("p", ORDERS)
def test_empty_rows(p):
    for n, m, d in ((0, 3, 2), (3, 0, 2), (0, 0, 0), (3, 2, 0)):
        a, b = rushlight.ones(n, d, requires_grad=True), rushlight.ones(m, d, requires_grad=True)
        found = without_product(a, b, p)
        assert rushlight.equal(found, rushlight.zeros(n, m))
        found.sum().backward()
        assert a.grad.shape == a.shape and not a.grad.any() and not b.grad.any()
    assert without_product(rushlight.ones(0, 3, 2), rushlight.ones(1, 4, 2), p).shape == (0, 3, 4)
    for n in (0, 1):
        assert rushlight.pdist(rushlight.ones(n, 2), p).shape == (0,)
    assert rushlight.equal(rushlight.pdist(rushlight.ones(3, 0), p), rushlight.zeros(3))


@pytest.mark.parametrize("p", ORDERS)
def test_special_values(p):
    nan, inf = float("nan"), float("inf")
    a = rushlight.tensor([[nan, 1.0], [1.0, nan], [inf, 1.0], [-0.0, 1.0]])
    found = without_product(a, rushlight.tensor([[0.0, 1.0]]), p)[:, 0]
    assert found[:2].isnan().all()
    assert found[2] == (1 if p == 0 else inf)
    assert found[3] == 0


@pytest.mark.parametrize("p", ORDERS)
def test_any_number_of_threads(p):
    a, b = (rushlight.randn(n, 70, requires_grad=True) for n in (600, 130))
    before, results = rushlight.get_num_threads(), []
    try:
        for threads, grain in ((1, 0), (4, 1)):
            rushlight.set_num_threads(threads)
            _C._set_largest_grain(grain)
            found = without_product(a, b, p), rushlight.pdist(a, p)
            results.append([*found, *rushlight.autograd.grad(found[0].square().sum(), (a, b)),
                            *rushlight.autograd.grad(found[1].square().sum(), a)])  # fmt: skip
    finally:
        rushlight.set_num_threads(before)
        _C._set_largest_grain(0)
    assert all(map(rushlight.equal, *results))


def test_half_precision():
    a = rushlight.randn(5, 3).bfloat16()
    rushlight.testing.assert_close(
        rushlight.cdist(a, a, 1.0), rushlight.cdist(a.float(), a.float(), 1.0).bfloat16()
    )
    rushlight.testing.assert_close(rushlight.pdist(a), rushlight.pdist(a.float()).bfloat16())


def test_mapped():
    a, b = rushlight.randn(3, 4, 2), rushlight.randn(5, 2)
    rushlight.testing.assert_close(
        vmap(lambda x: rushlight.cdist(x, b, 1.0))(a), rushlight.cdist(a, b, 1.0)
    )
    rushlight.testing.assert_close(
        vmap(rushlight.pdist)(a), rushlight.stack([rushlight.pdist(x) for x in a])
    )


def test_refusals():
    x = rushlight.ones(3, 2)
    for bad in (lambda: rushlight.cdist(x.int(), x), lambda: rushlight.cdist(x, x * 1j),
                lambda: rushlight.cdist(x, x.double()), lambda: rushlight.cdist(x[0], x),
                lambda: rushlight.cdist(x, rushlight.ones(3, 3)),
                lambda: rushlight.cdist(x, x, -1.0), lambda: rushlight.cdist(x, x, float("nan")),
                lambda: rushlight.cdist(x.expand(2, 3, 2), x.expand(3, 3, 2)),
                lambda: rushlight.pdist(x[0]), lambda: rushlight.pdist(x.int()),
                lambda: rushlight.pdist(x, -1.0)):  # fmt: skip
        with pytest.raises(RuntimeError):
            bad()


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_distances_by_a_product(batch):
    rushlight.manual_seed(0)
    a = rushlight.randn(*batch, 30, 5, dtype=rushlight.float64, requires_grad=True)
    b = rushlight.randn(4, 5, dtype=rushlight.float64, requires_grad=True)
    weight = rushlight.randn(*batch, 30, 4, dtype=rushlight.float64)
    modes = ["use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"]
    found, expected = (
        [d, *rushlight.autograd.grad((d * weight).sum(), [a, b])]
        for d in (rushlight.cdist(a, b, compute_mode=mode) for mode in modes)
    )
    assert all(map(rushlight.allclose, found, expected))


def test_distances_to_nan():
    a = rushlight.ones(30, 4)
    a[3, 1] = float("nan")
    for recorded in (False, True):
        found = rushlight.cdist(a.clone().requires_grad_(recorded), rushlight.zeros(30, 4))
        assert found[3].isnan().all() and found.isnan().sum() == 30


def test_distance_zero_has_gradient_zero():
    a = rushlight.ones(30, 4, requires_grad=True)
    rushlight.cdist(a, rushlight.ones(30, 4)).sum().backward()
    assert rushlight.equal(a.grad, rushlight.zeros(30, 4))
    with pytest.raises(ValueError, match="compute_mode"):
        rushlight.cdist(a, a, compute_mode="fast")


@pytest.mark.parametrize(
    "size", [(1, 1, 1), (2, 2, 3), (4, 3, 2), (8, 8, 5), (16, 16, 3), (8, 8, 64)]
)
@pytest.mark.parametrize("p", ORDERS)
def test_many_matrices_of_few_rows(p, size):
    n, m, d = size
    a, b = rushlight.randn(5, 27, n, d), rushlight.randn(5, 27, m, d)
    b[1, :, 0] = a[1, :, 0]
    if p > 0:
        a[2, 3, 0, 0], b[4, 5, 0, 0] = float("nan"), float("inf")
    for x, y in (
        (a, b),
        (a[:, :1].expand(-1, 27, -1, -1), b),
        (a[:, ::2], b[:, 1::2].flip(1)[:, :14]),
    ):
        y = y if y.shape[1] == x.shape[1] else rushlight.cat([y, y[:, :1]], 1)
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        found = without_product(x, y, p)
        grad = rushlight.randn_like(found)
        slopes = rushlight.autograd.grad(found, (x, y), grad)
        wide = x.detach().double().requires_grad_(), y.detach().double().requires_grad_()
        expected = without_product(*wide, p)
        other = rushlight.autograd.grad(expected, wide, grad.double())
        rushlight.testing.assert_close(
            found.double(), expected, rtol=2e-5, atol=1e-6, equal_nan=True
        )
        if p in (0.5, 1.5):
            continue  # steep where elements are near each other
        for one, double in zip(slopes, other, strict=True):
            rushlight.testing.assert_close(
                one.double(), double, rtol=1e-3, atol=1e-4, equal_nan=True
            )
