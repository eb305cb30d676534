"""Batches of small matrices, which have a lane of a vector each, beside NumPy: groups of them that
are full or not, in every layout, and what lanes leave to LAPACK."""

import numpy as np
import pytest

import rushlight
from rushlight import linalg

pytestmark = pytest.mark.kernels

DTYPES = ["float32", "float64"]
COUNTS = [7, 8, 16, 37, 300]  # too few, half a group, a group, some, blocks of several groups
SQUARES = [1, 2, 3, 5, 13, 16, 23]  # the last is too large for lanes
SHAPES = [(1, 1), (3, 3), (4, 3), (3, 4), (20, 5), (5, 20), (16, 16), (100, 3), (24, 24)]
LAYOUTS = ["rows", "columns", "strided", "two batch dims", "broadcast"]


def numbers(dtype, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def laid_out(a, layout):
    """A tensor of the matrices of `a`, and them as doubles."""
    t = rushlight.tensor(a)
    if layout == "columns":
        t = t.mT.contiguous().mT
    elif layout == "strided":
        wide = rushlight.zeros(len(a), *(2 * n for n in a.shape[1:]), dtype=t.dtype)
        wide[:, ::2, ::2] = t
        t = wide[:, ::2, ::2]
    elif layout == "two batch dims":
        t = t.expand(2, *t.shape).contiguous().transpose(0, 1)
    elif layout == "broadcast":
        t = t[:1].expand(t.shape)
    return t, t.double().numpy()


def near(found, expected, dtype, scale=1.0):
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    exact = 3e-5 if dtype == "float32" else 3e-13
    size = scale * max(1, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=0, atol=exact * size)


def orthonormal(q, dtype):
    near(
        q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *(q.shape[-1],) * 2)), dtype
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", SQUARES)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elimination(dtype, count, n, layout):
    a, exact = laid_out(numbers(dtype, count, n, n) + np.eye(n, dtype=dtype) * n, layout)
    sides = rushlight.tensor(numbers(dtype, *a.shape[:-2], n, 3, seed=1))
    right = sides.double().numpy()
    near(linalg.inv(a), np.linalg.inv(exact), dtype)
    near(linalg.det(a), np.linalg.det(exact), dtype)
    near(linalg.solve(a, sides), np.linalg.solve(exact, right), dtype)
    near(
        linalg.solve(a, sides.mT, left=False),
        np.linalg.solve(exact.swapaxes(-1, -2), right).swapaxes(-1, -2),
        dtype,
    )
    lu, pivots = linalg.lu_factor(a)
    near(
        linalg.lu_solve(lu, pivots, sides, adjoint=True),
        np.linalg.solve(exact.swapaxes(-1, -2), right),
        dtype,
    )
    p, lower, upper = rushlight.lu_unpack(lu, pivots)
    near(p @ lower @ upper, exact, dtype)
    assert lower.abs().max() <= 1  # what a row exchange is for


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", SQUARES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles(dtype, n, layout):
    m = numbers(dtype, 37, n, n)
    a, exact = laid_out(m @ m.swapaxes(1, 2) + np.eye(n, dtype=dtype), layout)
    sides = rushlight.tensor(numbers(dtype, *a.shape[:-2], n, 2, seed=1))
    right = sides.double().numpy()
    expected = np.linalg.cholesky(exact)
    for upper in (False, True):
        found = linalg.cholesky(a, upper=upper)
        triangle = expected.swapaxes(-1, -2) if upper else expected
        near(found, triangle, dtype, scale=n)
        for unit in (False, True):
            matrix = np.array(triangle)
            if unit:
                matrix[..., range(n), range(n)] = 1
            t = rushlight.tensor(matrix.astype(dtype))
            options = dict(upper=upper, unitriangular=unit)
            condition = np.linalg.cond(matrix).max()
            near(
                linalg.solve_triangular(t, sides, **options),
                np.linalg.solve(matrix, right),
                dtype,
                condition,
            )
            near(
                linalg.solve_triangular(t, sides.mT, left=False, **options),
                np.linalg.solve(matrix.swapaxes(-1, -2), right).swapaxes(-1, -2),
                dtype,
                condition,
            )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reflectors(dtype, shape, layout):
    a, exact = laid_out(numbers(dtype, 37, *shape), layout)
    few = min(shape)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        near(q @ r, exact, dtype)
        orthonormal(q, dtype)
        assert not r.tril(-1).any()
        near(linalg.qr(a, "r").R.abs(), r[..., :few, :].abs().double().numpy(), dtype)
    packed, scales = rushlight.geqrf(a)
    if shape[0] >= shape[1]:
        q = linalg.householder_product(packed, scales)
        near(q @ packed[..., :few, :].triu(), exact, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", SQUARES)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_symmetric_eigenvalues(dtype, count, n, layout):
    m = numbers(dtype, count, n, n)
    a, exact = laid_out(m + m.swapaxes(1, 2), layout)
    expected = np.linalg.eigvalsh(exact)
    near(linalg.eigvalsh(a), expected, dtype)
    for uplo, part in (("L", a.tril()), ("U", a.triu())):  # the other triangle is not read
        values, vectors = linalg.eigh(part, UPLO=uplo)
        near(values, expected, dtype)
        near(vectors * values.unsqueeze(-2) @ vectors.mT, exact, dtype)
        orthonormal(vectors, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_values(dtype, shape, layout):
    a, exact = laid_out(numbers(dtype, 37, *shape), layout)
    expected, few = np.linalg.svd(exact, compute_uv=False), min(shape)
    near(linalg.svdvals(a), expected, dtype)
    for full in (False, True):
        u, s, vh = linalg.svd(a, full_matrices=full)
        near(s, expected, dtype)
        near(u[..., :few] * s.unsqueeze(-2) @ vh[..., :few, :], exact, dtype)
        orthonormal(u, dtype)
        orthonormal(vh.mT, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("driver", ["gelsy", "gels"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares(dtype, shape, driver, layout):
    m = numbers(dtype, 37, *shape) + 3 * np.eye(*shape, dtype=dtype)
    a, exact = laid_out(m, layout)
    sides = rushlight.tensor(numbers(dtype, *a.shape[:-1], 2, seed=1))
    found = linalg.lstsq(a, sides, driver=driver)
    right = sides.double().numpy()
    expected = np.linalg.pinv(exact) @ right
    near(found.solution, expected, dtype, np.linalg.cond(exact).max())
    if driver == "gelsy":
        assert (found.rank == min(shape)).all()
    elif shape[0] > shape[1]:
        near(found.residuals, ((exact @ expected - right) ** 2).sum(-2), dtype, 10)


# Squares of such numbers would not be finite, or nothing.
@pytest.mark.parametrize("exponent", [-120, -60, 0, 60, 120])
@pytest.mark.parametrize("dtype", DTYPES)
def test_lower_ranks_and_sizes(dtype, exponent):
    a = numbers(dtype, 40, 4, 4)
    a[::4] = a[::4, :, :1] @ a[::4, :1, :]
    a[1], a[2], a[3] = 0, np.eye(4), np.diag([1, 0, 0, 2])
    a[5, :, 2] = 0
    a *= np.array(2.0, dtype) ** (exponent if dtype == "float32" else 8 * exponent)
    t, exact = rushlight.tensor(a), a.astype(np.float64)
    scale = 1 / np.abs(exact).max()
    u, s, vh = linalg.svd(t)
    near(s.double() * scale, np.linalg.svd(exact * scale, compute_uv=False), dtype)
    near(u.double() * (s.double() * scale).unsqueeze(-2) @ vh.double(), exact * scale, dtype)
    orthonormal(u, dtype)
    orthonormal(vh.mT, dtype)
    assert linalg.matrix_rank(t)[:5].tolist() == [1, 0, 4, 2, 1]
    both = t / 2 + t.mT / 2
    values, vectors = linalg.eigh(both)
    near(values.double() * scale, np.linalg.eigvalsh(both.double().numpy() * scale), dtype)
    orthonormal(vectors, dtype)
    q, r = linalg.qr(t)
    near(q.double() @ (r.double() * scale), exact * scale, dtype)
    orthonormal(q, dtype)
    found = linalg.lstsq(t, t)
    assert found.rank[:5].tolist() == [1, 0, 4, 2, 1]
    near(t.double() @ found.solution.double() * scale, exact * scale, dtype, 100)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_a_lane_cannot_do(dtype):
    a = rushlight.tensor(numbers(dtype, 20, 3, 3))
    singular, infinite = a.clone(), a.clone()
    singular[7] = 0
    with pytest.raises(linalg.LinAlgError, match=r"inv: \(Batch element 7\): .* element 1 is zero"):
        linalg.inv(singular)
    assert linalg.lu_factor_ex(singular).info.tolist() == [i == 7 for i in range(20)]
    squares = a @ a.mT + rushlight.eye(3, dtype=a.dtype)
    squares[9, 1, 1] = -1
    with pytest.raises(linalg.LinAlgError, match=r"cholesky: \(Batch element 9\).* order 2 "):
        linalg.cholesky(squares)
    infinite[7, 1, 1] = float("inf")
    with pytest.raises(linalg.LinAlgError, match=r"svd: \(Batch element 7\).* non-finite"):
        linalg.svd(infinite)
    infinite[7, 1, 1] = float("nan")
    with pytest.raises(linalg.LinAlgError, match=r"eigh: \(Batch element 7\)"):
        linalg.eigh(infinite)
    lu, pivots = linalg.lu_factor(a)
    pivots[11, 0] = 4
    with pytest.raises(
        RuntimeError, match=r"pivots should be between 1 and 3 \(inclusive\), got 4"
    ):
        linalg.lu_solve(lu, pivots, a)
    backwards = rushlight.tensor([3, 1, 2], dtype=rushlight.int32).expand(20, 3).contiguous()
    sides = rushlight.arange(3.0, dtype=a.dtype).reshape(1, 3, 1).expand(20, 3, 1)
    unit = rushlight.eye(3, dtype=a.dtype).expand(20, 3, 3).contiguous()
    expected = linalg.lu_solve(unit[0], backwards[0], sides[0])
    assert (linalg.lu_solve(unit, backwards, sides) == expected).all()


def test_gradients():
    a = rushlight.tensor(numbers("float64", 9, 3, 3) + 2 * np.eye(3), requires_grad=True)
    sides = rushlight.tensor(numbers("float64", 9, 3, 2, seed=1), requires_grad=True)

    def symmetric(f):
        return lambda m: f(m @ m.mT)

    for f in (
        linalg.inv,
        linalg.det,
        linalg.svdvals,
        symmetric(linalg.cholesky),
        symmetric(lambda m: linalg.eigh(m).eigenvalues),
        lambda m: linalg.qr(m).R,
        linalg.pinv,
    ):
        assert rushlight.autograd.gradcheck(f, (a,))
    assert rushlight.autograd.gradcheck(linalg.solve, (a, sides))
    assert rushlight.autograd.gradcheck(lambda m, b: linalg.lstsq(m, b).solution, (a, sides))
