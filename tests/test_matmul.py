"""Matrix products beside NumPy's, for the sizes at which the kernels change their ways."""

import itertools

import numpy as np
import pytest

import rushlight

pytestmark = pytest.mark.kernels

DTYPES = [
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
]
# (m, k, n): tiny, edges of tiles, vectors, few rows, several blocks of k, of rows and of columns.
SIZES = [(1, 1, 1), (2, 3, 1), (8, 32, 32), (7, 16, 24), (17, 33, 49), (1, 70, 130), (130, 70, 1),
         (3, 65, 64), (5, 513, 8), (64, 40, 300), (33, 1030, 20), (300, 530, 65), (260, 20, 515),
         (270, 600, 280)]  # fmt: skip
LAYOUTS = ["rows", "columns", "steps"]


def matrix(generator, rows, columns, dtype, layout):
    """The same values as a tensor that lies in memory as `layout` says, and as an array."""
    values = generator.integers(-9 if dtype != "uint8" else 0, 10, (rows, columns)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        values += 1j * generator.integers(-9, 10, (rows, columns))
    if layout == "columns":
        return rushlight.tensor(np.ascontiguousarray(values.T)).t(), values
    if layout == "steps":
        wide = np.full((2 * rows, 3 * columns), 77, dtype)
        wide[::2, 1::3] = values
        return rushlight.tensor(wide)[::2, 1::3], values
    return rushlight.tensor(values), values


def product(x, y):
    """Exact: sums of the small integers that `matrix` draws fit, or wrap as ours do."""
    wide = {"c": np.complex128, "f": np.float64}.get(x.dtype.kind, np.int64)
    return (x.astype(wide) @ y.astype(wide)).astype(x.dtype)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout(dtype, size):
    generator = np.random.default_rng(0)
    m, k, n = size
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        a, x = matrix(generator, m, k, dtype, left)
        b, y = matrix(generator, k, n, dtype, right)
        np.testing.assert_array_equal((a @ b).numpy(), product(x, y), err_msg=f"{left}, {right}")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_linear_adds_its_bias_once(size, layout):
    generator = np.random.default_rng(0)
    m, k, n = size
    a, x = matrix(generator, m, k, "float32", layout)
    w, y = matrix(generator, n, k, "float32", layout)
    bias = np.arange(n, dtype="float32")
    found = rushlight.nn.functional.linear(a, w, rushlight.tensor(bias))
    np.testing.assert_array_equal(found.numpy(), product(x, y.T) + bias)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_rounded_once(dtype):
    generator = np.random.default_rng(0)
    a, b = (rushlight.tensor(generator.standard_normal((65, 65)).astype("float32"))
            .to(getattr(rushlight, dtype)) for _ in range(2))  # fmt: skip
    expected = (a.double() @ b.double()).to(a.dtype)
    assert rushlight.allclose((a @ b).double(), expected.double(), rtol=1e-2, atol=1e-3)
    assert rushlight.equal(a @ b, (a.float() @ b.float()).to(a.dtype))


@pytest.mark.parametrize("batch", [1, 3])
def test_batches(batch):
    generator = np.random.default_rng(0)
    x = generator.integers(-9, 10, (batch, 70, 33)).astype("float32")
    y = generator.integers(-9, 10, (batch, 33, 50)).astype("float32")
    a, b = rushlight.tensor(x), rushlight.tensor(y)
    np.testing.assert_array_equal((a @ b).numpy(), x @ y)
    np.testing.assert_array_equal((a @ b[0]).numpy(), x @ y[0])
    np.testing.assert_array_equal((a[0] @ b).numpy(), x[0] @ y)
    across = rushlight.tensor(np.ascontiguousarray(y.transpose(0, 2, 1)))
    np.testing.assert_array_equal((a @ across.transpose(1, 2)).numpy(), x @ y)


def test_sums_over_nothing():
    assert rushlight.equal(rushlight.ones(3, 0) @ rushlight.ones(0, 2), rushlight.zeros(3, 2))
    assert (rushlight.ones(0, 3) @ rushlight.ones(3, 2)).shape == (0, 2)
    bias = rushlight.tensor([1.0, 2.0])
    found = rushlight.nn.functional.linear(rushlight.ones(3, 0), rushlight.ones(2, 0), bias)
    assert rushlight.equal(found, bias.expand(3, 2))


def test_nan_stays_in_its_row_and_column():
    a, b = rushlight.ones(70, 40), rushlight.ones(40, 90)
    a[3, 5] = float("nan")
    b[7, 80] = float("inf")
    found = a @ b
    assert found[3].isnan().all() and found.isnan().sum() == 90
    assert found[:, 80].isinf().sum() == 69


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
@pytest.mark.parametrize(
    "m, k, n", [(300, 530, 700), (20, 3000, 900), (1, 3000, 3000), (3000, 2000, 1)]
)
def test_the_same_for_any_number_of_threads(dtype, m, k, n):
    rushlight.manual_seed(0)
    a = rushlight.randn(m, k).to(getattr(rushlight, dtype))
    b, across = (rushlight.randn(*sizes).to(a.dtype) for sizes in ((k, n), (n, k)))
    before = rushlight.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 8):
            rushlight.set_num_threads(threads)
            results.append((a @ b, a @ across.t(), a.t().contiguous().t() @ b))
    finally:
        rushlight.set_num_threads(before)
    for found in results[1:]:
        assert all(
            rushlight.equal(one, other) for one, other in zip(found, results[0], strict=True)
        )


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


def test_distance_zero_has_gradient_zero():
    a = rushlight.ones(30, 4, requires_grad=True)
    rushlight.cdist(a, rushlight.ones(30, 4)).sum().backward()
    assert rushlight.equal(a.grad, rushlight.zeros(30, 4))
    with pytest.raises(ValueError, match="compute_mode"):
        rushlight.cdist(a, a, compute_mode="fast")
