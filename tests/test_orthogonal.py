"""Q R and what stands on it: of all sizes about panels, halves and blocks of reflectors."""

import math

import numpy
import pytest

import rushlight
from rushlight import linalg
from rushlight.testing import assert_close

pytestmark = pytest.mark.kernels

FLOATS = [rushlight.float32, rushlight.float64]
SIZES = [
    (1, 1), (2, 1), (1, 2), (3, 5), (16, 16), (17, 16), (16, 17), (33, 20), (40, 40), (64, 64),
    (65, 65), (64, 130), (130, 64), (129, 129), (200, 150), (300, 3), (3, 300), (517, 70),
]  # fmt: skip


def bound(a):
    return 20 * rushlight.finfo(a.dtype).eps * math.sqrt(max(a.shape)) * float(a.abs().max())


def check_qr(a, mode="reduced"):
    q, r = linalg.qr(a, mode=mode)
    assert rushlight.equal(r, r.triu())
    assert_close(q @ r, a, rtol=0, atol=bound(a) * a.shape[-1] ** 0.5)
    assert_close(q.mT @ q, rushlight.eye(q.shape[1], dtype=a.dtype), rtol=0, atol=bound(q) * 4)
    return q, r


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("rows, columns", SIZES)
def test_qr(rows, columns, mode, dtype):
    a = rushlight.randn(rows, columns, dtype=dtype)
    _, r = check_qr(a, mode)
    expected = numpy.linalg.qr(a.double().numpy(), mode="r")
    assert_close(r[: min(rows, columns)].double(), rushlight.from_numpy(expected),
                 rtol=0, atol=100 * bound(a) * columns)  # fmt: skip
    assert_close(linalg.qr(a, mode="r")[1], linalg.qr(a)[1], rtol=0, atol=0)


def test_qr_of_any_strides():
    a = rushlight.randn(80, 200, dtype=rushlight.float64)
    for each in (a.t(), a[:, ::3], a[::2, 1:41], a[:1].expand(50, 200)[:, :50] + rushlight.eye(50)):
        check_qr(each)
    batch = rushlight.randn(3, 40, 70).transpose(1, 2)
    q, r = linalg.qr(batch)
    for i in range(3):
        assert rushlight.equal(q[i], linalg.qr(batch[i])[0])
    assert_close(q @ r, batch, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("power", [-1, -0.5, -0.3, 0.3, 0.5, 0.9])
def test_qr_of_small_and_large_numbers(power, dtype):
    """Those whose squares leave the range of the dtype are left to LAPACK."""
    limits = rushlight.finfo(dtype)
    scale = (limits.max if power > 0 else limits.tiny * 2**10) ** abs(power)
    a = rushlight.randn(70, 40, dtype=dtype)
    for each in (a * scale, rushlight.cat([a, a * scale]), rushlight.cat([a, a[:20] * scale], 0)):
        q, _ = linalg.qr(each)
        assert_close(q.mT @ q, rushlight.eye(40, dtype=dtype), rtol=0, atol=200 * limits.eps)


def test_qr_of_dependent_columns():
    a = rushlight.randn(60, 20, dtype=rushlight.float64)
    zeros = rushlight.zeros(60, 7, dtype=a.dtype)
    equal = rushlight.ones(60, 30, dtype=a.dtype)
    both, within = rushlight.cat([a, a], 1), rushlight.cat([zeros, a, zeros], 1)
    for each in (both, within, zeros, equal, rushlight.eye(60, dtype=a.dtype)):
        q, r = linalg.qr(each)
        assert_close(q @ r, each)
        assert_close(q.mT @ q, rushlight.eye(q.shape[1], dtype=a.dtype))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_qr_of_what_is_not_finite(value):
    a = rushlight.randn(50, 30)
    a[20, 10] = value
    q, r = linalg.qr(a)
    assert r[10:, 10].isnan().any() and q[:, 10:].isnan().any()
    assert r[:10, :10].isfinite().all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows, columns", [(3, 3), (20, 5), (40, 40), (100, 70), (150, 130)])
def test_reflectors(rows, columns, dtype):
    a = rushlight.randn(rows, columns, dtype=dtype)
    reflectors, tau = rushlight.geqrf(a)
    q, r = check_qr(a, "complete")
    assert_close(reflectors.triu()[:columns], r[:columns])
    assert_close(linalg.householder_product(reflectors, tau), q[:, :columns])
    few = columns // 2
    vectors = reflectors[:, :few].contiguous()
    product = rushlight.eye(rows, dtype=dtype)
    for k in range(few):
        v = vectors[:, k].clone()
        v[:k], v[k] = 0, 1
        product = product - tau[k] * rushlight.outer(product @ v, v)
    assert_close(linalg.householder_product(reflectors, tau[:few]), product[:, :columns])
    for shape, left in (((rows, 9), True), ((9, rows), False)):
        x = rushlight.randn(shape, dtype=dtype)
        for transpose in (False, True):
            by = product.t() if transpose else product
            expected = by @ x if left else x @ by
            made = rushlight.ormqr(vectors, tau[:few], x, left=left, transpose=transpose)
            assert_close(made, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("driver", ["gels", "gelsy"])
@pytest.mark.parametrize("rows, columns", [(5, 3), (40, 40), (200, 30), (30, 200), (150, 130)])
def test_least_squares(rows, columns, driver, dtype):
    a = rushlight.randn(rows, columns, dtype=dtype)
    a += 3 * math.sqrt(rows) * rushlight.eye(rows, columns)
    b = rushlight.randn(rows, 3, dtype=dtype)
    solution, residuals, rank, _ = linalg.lstsq(a, b, driver=driver)
    expected = linalg.pinv(a.double()) @ b.double()
    assert_close(solution.double(), expected, rtol=0, atol=20 * bound(solution))
    if rows > columns and driver == "gels":
        assert_close(residuals, (a @ solution - b).square().sum(0), rtol=1e-4, atol=1e-4)
    if driver == "gelsy":
        assert rank.item() == min(rows, columns)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(8, 3), (3, 8), (100, 40), (40, 100), (200, 70), (2, 70, 9)])
def test_singular_values_of_long_matrices(shape, full, dtype):
    a = rushlight.randn(shape, dtype=dtype)
    u, s, vh = linalg.svd(a, full_matrices=full)
    few = min(shape[-2:])
    middle = u[..., :few] * s.unsqueeze(-2) @ vh[..., :few, :]
    assert_close(middle, a, rtol=0, atol=10 * bound(a))
    for basis in (u, vh.mT):
        eye = rushlight.eye(basis.shape[-1], dtype=dtype).expand(*shape[:-2], -1, -1)
        assert_close(basis.mT @ basis, eye, rtol=0, atol=bound(u))
    expected = rushlight.from_numpy(numpy.linalg.svd(a.double().numpy(), compute_uv=False))
    assert_close(s.double(), expected, rtol=0, atol=bound(a) * float(s.max()))
    assert_close(linalg.svdvals(a), s, rtol=0, atol=bound(a) * float(s.max()))


def test_singular_values_of_long_matrices_out_of_range():
    a = rushlight.randn(90, 20)
    for scale in (1e-30, 1e30):
        assert_close(linalg.svdvals(a * scale), linalg.svdvals(a) * scale, rtol=1e-4, atol=0)
    a[30, 10] = math.nan
    with pytest.raises(RuntimeError, match="NaN|finite|converge"):
        linalg.svd(a)


def test_least_squares_of_lower_rank():
    a = rushlight.randn(60, 20, dtype=rushlight.float64)
    b = rushlight.randn(60, 2, dtype=rushlight.float64)
    both = rushlight.cat([a, a @ rushlight.randn(20, 15, dtype=a.dtype)], 1)
    solution, _, rank, _ = linalg.lstsq(both, b)
    assert rank.item() == 20
    assert_close(solution, linalg.pinv(both) @ b)
    for rcond, expected in ((1e-12, 21), (1e-6, 20)):
        nearly = rushlight.cat([a, a[:, :1] + 1e-9 * rushlight.randn(60, 1, dtype=a.dtype)], 1)
        assert linalg.lstsq(nearly, b, rcond=rcond).rank.item() == expected
