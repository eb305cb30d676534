"""Factors, inverses and solutions beside NumPy's, for the sizes at which the kernels change their
ways."""

import numpy as np
import pytest

import rushlight
from rushlight import linalg

pytestmark = pytest.mark.kernels

DTYPES = ["float32", "float64", "complex64", "complex128"]
# None, single ones, less than a vector, panels and what is left of them, tiles, halves of halves.
SIZES = [0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 48, 70, 130]


def tolerance(dtype):
    return 1e-10 if dtype in ("float64", "complex128") else 2e-3


def numbers(dtype, *shape, seed=0):
    generator = np.random.default_rng(seed)
    found = generator.standard_normal(shape)
    if dtype.startswith("complex"):
        found = found + 1j * generator.standard_normal(shape)
    return found.astype(dtype)


def systems(dtype, n, batch=()):
    """Matrices far from singular ones."""
    return numbers(dtype, *batch, n, n) + np.eye(n, dtype=dtype) * max(n, 1) ** 0.5


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def assert_near(found, expected, dtype):
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    scale = max(1, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=tolerance(dtype) * scale)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_inverse_and_solution(dtype, n, batch):
    a = systems(dtype, n, batch)
    columns, rows = numbers(dtype, *batch, n, 5, seed=1), numbers(dtype, *batch, 5, n, seed=2)
    t = rushlight.tensor(a)
    turned = rushlight.tensor(np.ascontiguousarray(np.swapaxes(a, -1, -2))).mT
    for matrix in (t, turned):
        assert_near(linalg.inv(matrix), np.linalg.inv(a), dtype)
        found = linalg.solve(matrix, rushlight.tensor(columns))
        assert_near(found, np.linalg.solve(a, columns), dtype)
    assert_near(
        linalg.solve(t, rushlight.tensor(columns[..., :1])),
        np.linalg.solve(a, columns[..., :1]),
        dtype,
    )
    assert_near(linalg.solve(t, rushlight.tensor(rows), left=False), rows @ np.linalg.inv(a), dtype)
    sign, size = linalg.slogdet(t)
    expected = np.linalg.slogdet(a)
    assert_near(sign, expected[0], dtype)
    assert_near(size, expected[1], dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors(dtype, n):
    for rows, columns in ((n, n), (n + 7, n), (n, n + 7), (n + 40, n), (n, n + 40)):
        a = numbers(dtype, rows, columns)
        p, lower, upper = linalg.lu(rushlight.tensor(a))
        assert_near(p @ lower @ upper, a, dtype)
        parts = lower.numpy()
        size = np.abs(parts.real) + np.abs(parts.imag)
        assert size.max(initial=0) <= (2 if dtype.startswith("complex") else 1) * (1 + 1e-5)
    a = systems(dtype, n)
    positive = a @ adjoint(a)
    factor = np.linalg.cholesky(positive)
    garbled = positive + np.triu(np.full((n, n), 7), 1).astype(dtype)  # that triangle is not read
    assert_near(linalg.cholesky(rushlight.tensor(garbled)), factor, dtype)
    garbled = np.ascontiguousarray(adjoint(garbled))
    assert_near(linalg.cholesky(rushlight.tensor(garbled), upper=True), adjoint(factor), dtype)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("flipped", [True, False])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_solution_by_factors(dtype, n, flipped, left):
    a, b = systems(dtype, n), numbers(dtype, n, 4) if left else numbers(dtype, 4, n)
    lu, pivots = linalg.lu_factor(rushlight.tensor(a))
    found = linalg.lu_solve(lu, pivots, rushlight.tensor(b), left=left, adjoint=flipped)
    inverse = np.linalg.inv(adjoint(a) if flipped else a)
    assert_near(found, inverse @ b if left else b @ inverse, dtype)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_solution(dtype, upper, left, unit):
    for n in SIZES:
        a = numbers(dtype, n, n) / (n + 1) + 2 * np.eye(n, dtype=dtype)
        used = np.triu(a) if upper else np.tril(a)
        if unit:
            np.fill_diagonal(used, 1)
        for count in (0, 1, 3, 16, 70):
            b = numbers(dtype, n, count) if left else numbers(dtype, count, n)
            inverse = np.linalg.inv(used)
            expected = inverse @ b if left else b @ inverse
            apart = rushlight.zeros(n, 2 * n, dtype=getattr(rushlight, dtype))[:, ::2]
            for matrix in (
                rushlight.tensor(a),
                rushlight.tensor(np.ascontiguousarray(a.T)).mT,
                apart.copy_(rushlight.tensor(a)),
            ):
                found = linalg.solve_triangular(
                    matrix, rushlight.tensor(b), upper=upper, left=left, unitriangular=unit
                )
                assert_near(found, expected, dtype)


def test_triangular_solutions_have_the_matrix_s_dtype():
    a = rushlight.tensor([[2.0, 1.0], [0.0, 4.0]], dtype=rushlight.float64, requires_grad=True)
    b = rushlight.tensor([[1.0], [2.0]], requires_grad=True)
    solution = linalg.solve_triangular(a, b, upper=True)
    assert solution.dtype == rushlight.float64 and solution.tolist() == [[0.25], [0.5]]
    solution.sum().backward()
    assert b.grad.dtype == b.dtype and b.grad.tolist() == [[0.5], [0.125]]
    assert a.grad.tolist() == [[-0.125, -0.25], [0, -0.0625]]
    assert linalg.solve_triangular(a, b.long(), upper=True).equal(solution)
    for solve in (linalg.solve, lambda a, b: rushlight.triangular_solve(b, a),
                  lambda a, b: rushlight.cholesky_solve(b, a),
                  lambda a, b: linalg.solve_triangular(a, b.cfloat(), upper=True)):  # fmt: skip
        with pytest.raises(RuntimeError, match="same dtype"):
            solve(a, b)


@pytest.mark.parametrize("n", [1, 3, 16, 20, 70])
@pytest.mark.parametrize("dtype", DTYPES)
def test_singular(dtype, n):
    a = rushlight.tensor(systems(dtype, n))
    a[:, n // 2] = 0
    assert linalg.inv_ex(a).info == linalg.lu_factor_ex(a).info == n // 2 + 1
    with pytest.raises(linalg.LinAlgError):
        linalg.inv(a)
    p, lower, upper = linalg.lu(a)
    assert_near(p @ lower @ upper, a.numpy(), dtype)
    assert linalg.det(a) == 0
    negative = rushlight.eye(n, dtype=a.dtype)
    negative[-1, -1] = -1
    assert linalg.cholesky_ex(negative).info == n


def test_nan_spreads():
    for n in (3, 20, 70):
        a = rushlight.tensor(systems("float32", n))
        a[0, 0] = float("nan")
        assert linalg.det(a).isnan() and linalg.inv_ex(a).inverse.isnan().any()
        assert linalg.solve_triangular(a, rushlight.ones(n, 1), upper=False).isnan().all()


def test_results_into_a_transposed_matrix():
    a = rushlight.tensor(systems("float32", 20))
    out = rushlight.empty(20, 20).t()
    linalg.inv(a, out=out)
    rushlight.testing.assert_close(out, linalg.inv(a))


def test_multi_dot():
    generator = np.random.default_rng(0)
    sizes = [3, 20, 5, 30, 4, 6]
    matrices = [generator.standard_normal(pair) for pair in zip(sizes, sizes[1:])]
    ends = [generator.standard_normal(3), *matrices, generator.standard_normal(6)]
    for given in (matrices[:2], matrices[:3], matrices, ends[:-1], ends[1:], ends, [ends[0]] * 2):
        found = linalg.multi_dot([rushlight.tensor(m) for m in given])
        np.testing.assert_allclose(found.numpy(), np.linalg.multi_dot(given), rtol=1e-10)
    x = rushlight.ones(2, 3)
    for bad in ([x], [x, x], [x, x.mT.double()], [x, rushlight.ones(3), x]):
        with pytest.raises(RuntimeError, match="multi_dot"):
            linalg.multi_dot(bad)


@pytest.mark.parametrize("upper", [False, True])
def test_gradients_of_a_cholesky_factor(upper):
    """Those of L L^T, and 0 beside the triangle, on which the value does not depend."""
    root = rushlight.tensor([[2.0, 0.0], [1.0, 3.0]], dtype=rushlight.float64)
    factor = (root.T if upper else root).clone().requires_grad_()
    b = rushlight.tensor([[1.0], [2.0]], dtype=rushlight.float64, requires_grad=True)

    def through(solve):
        return rushlight.autograd.grad(
            (solve() * rushlight.tensor([[1.0], [3.0]])).sum(), (factor, b)
        )

    def matrix():
        return factor.T @ factor if upper else factor @ factor.T

    for short, long in (
        (lambda: rushlight.cholesky_solve(b, factor, upper), lambda: linalg.solve(matrix(), b)),
        (lambda: rushlight.cholesky_inverse(factor, upper) @ b, lambda: linalg.inv(matrix()) @ b),
    ):
        g, h = through(long)
        expected = (g.triu() if upper else g.tril(), h)
        rushlight.testing.assert_close(through(short), expected)


def test_errors_count_the_place_of_what_is_wrong():
    good = rushlight.eye(3)
    bad = good.clone()
    bad[1, 1] = 0
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 2 is not positive-def"):
        linalg.cholesky(bad)
    with pytest.raises(linalg.LinAlgError, match=r"element 1\): The diagonal element 2 is zero"):
        linalg.inv(rushlight.stack([good, bad]))
    with pytest.raises(linalg.LinAlgError, match="its diagonal element 2 is zero"):
        linalg.lu_factor(bad)


def test_tensorsolve_of_nothing():
    a, b = rushlight.ones(0, 2, 2, 0), rushlight.ones(0, 2)
    assert linalg.tensorsolve(a, b).shape == (2, 0)


def test_principal_components_of_sparse_data():
    data = rushlight.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 1.0], [4.0, 0.0, 0.0]])
    _, whole, _ = rushlight.pca_lowrank(data, q=3)
    _, sparse, _ = rushlight.pca_lowrank(data.to_sparse(), q=3)
    np.testing.assert_allclose(sparse.numpy(), whole.numpy(), atol=1e-5)
