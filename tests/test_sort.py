"""Order within lines: short ones, which are sorted side by side, at the sizes at which the kernels
change their way, beside NumPy's stable sort."""

import numpy as np
import pytest

import rushlight

pytestmark = pytest.mark.kernels

DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
# Of lines and of their elements: fewer lines than are sorted side by side, more than fill a panel,
# a number that leaves a remainder, and the greatest numbers of elements and more.
SIZES = [(9, 1), (2053, 2), (3, 3), (1100, 4), (4, 5), (300, 8), (333, 13), (129, 16), (70, 33),
         (69, 64), (20, 128), (9, 200), (40, 200), (33, 256), (5, 257)]  # fmt: skip


def lines_of(dtype, count, n):
    """Many equals, and all that is special to the dtype: in some lines, in others, in none."""
    generator = np.random.default_rng(n)
    if dtype == rushlight.bool:
        return rushlight.from_numpy(generator.random((count, n)) < 0.5)
    if dtype.is_floating_point:
        numbers = generator.standard_normal((count, n))
        neighbours = [0.3, 0.1 + 0.2, -0.3, -0.1 - 0.2]
        special = np.array([*neighbours, 1e-310, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7])
    else:
        numbers = generator.integers(0, 50, (count, n))
        limits = rushlight.iinfo(dtype)
        special = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max])
    share = np.linspace(-0.5, 1, count)[:, None]
    chosen = generator.random((count, n)) < share
    x = np.where(chosen, generator.choice(special, (count, n)), numbers)
    x[-1] = special[-2]  # NaN, of floats
    return rushlight.from_numpy(x).to(dtype)


def layouts_of(x):
    """The lines along the last dim and along the first, dense and not, and the dim."""
    yield x, 1
    yield x.t().contiguous(), 0
    yield rushlight.stack([x, x], 2)[:, :, 1], 1
    yield rushlight.stack([x] * 5, 1)[:, 2], 1
    yield rushlight.stack([x] * 3, 2)[:, :, 1:], 1
    yield rushlight.stack([x, x.flip(1), x.flip(0)]), 2


def order_of(x, descending):
    """The places of the elements in order, by the definition: equals keep theirs, NaN is greatest,
    and -0 equals 0."""
    if not descending:
        return np.argsort(x, -1, kind="stable")
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]


def comparable(x):
    return x.float().numpy() if x.dtype == rushlight.bfloat16 else x.numpy()


def bits_of(x, dim):
    dtypes = {1: rushlight.uint8, 2: rushlight.int16, 4: rushlight.int32, 8: rushlight.int64}
    return x.contiguous().view(dtypes[x.itemsize]).movedim(dim, -1).numpy()


def assert_elements(x, dim, values, places, expected):
    """The places are those expected, and the values are the elements there, to the last bit."""
    assert np.array_equal(places.movedim(dim, -1).numpy(), expected)
    assert values.dtype == x.dtype and places.dtype == rushlight.int64
    assert np.array_equal(bits_of(values, dim), np.take_along_axis(bits_of(x, dim), expected, -1))


def assert_ranks(x, dim, result, order, ranks):
    """Of each line, the result is the element of that rank."""
    values, places = (y.unsqueeze(dim) for y in result)
    assert_elements(x, dim, values, places, np.take_along_axis(order, ranks, -1))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("count, n", SIZES)
def test_sort_is_stable(name, count, n):
    for x, dim in layouts_of(lines_of(getattr(rushlight, name), count, n)):
        lines = comparable(x.movedim(dim, -1))
        for descending in (False, True):
            expected = order_of(lines, descending)
            assert_elements(x, dim, *x.sort(dim, descending), expected)
            places = x.argsort(dim, descending)
            assert np.array_equal(places.movedim(dim, -1).numpy(), expected)
            for k in {1, min(n, 3), n}:
                values, places = x.topk(k, dim, largest=descending)
                assert_elements(x, dim, values, places, expected[..., :k])


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("count, n", SIZES)
def test_ranks_are_those_of_a_stable_sort(name, count, n):
    for x, dim in layouts_of(lines_of(getattr(rushlight, name), count, n)):
        lines = comparable(x.movedim(dim, -1))
        order = order_of(lines, False)
        one_of_each = np.zeros_like(order[..., :1])
        for k in {1, n // 2 + 1, n}:
            assert_ranks(x, dim, x.kthvalue(k, dim), order, one_of_each + k - 1)
        numbers = (lines == lines).sum(-1, keepdims=True)
        middle = (numbers - 1) // 2
        assert_ranks(x, dim, x.median(dim), order, np.where(numbers < n, numbers, middle))
        assert_ranks(x, dim, x.nanmedian(dim), order, np.where(numbers == 0, 0, middle))
        # The end of the longest run of the sorted line; NaN is equal to none.
        ordered = np.take_along_axis(lines, order, -1)
        length, longest, end = one_of_each + 1, one_of_each + 1, one_of_each
        for i in range(1, n):
            same = ordered[..., i : i + 1] == ordered[..., i - 1 : i]
            length = np.where(same, length + 1, 1)
            end = np.where(length > longest, i, end)
            longest = np.maximum(longest, length)
        assert_ranks(x, dim, x.mode(dim), order, end)


@pytest.mark.parametrize("name", ["float32", "int64"])
def test_threads_sort_the_same(name):
    for x, dim in layouts_of(lines_of(getattr(rushlight, name), 20000, 10)):
        places = x.argsort(dim).movedim(dim, -1).numpy()
        assert np.array_equal(places, order_of(x.movedim(dim, -1).numpy(), False))


@pytest.mark.parametrize("count", [1, 2, 8, 9, 40])
def test_elements_are_found_among_few_and_many(count):
    x = np.random.default_rng(count).integers(0, 60, (7, 50)).astype("float32")
    x[2, 3] = np.nan
    tested = x.reshape(-1)[119 : 119 + count]
    t, among = rushlight.from_numpy(x), rushlight.from_numpy(tested)
    for invert in (False, True):
        expected = np.isin(x, tested, invert=invert)
        assert np.array_equal(rushlight.isin(t, among, invert=invert).numpy(), expected)
        assert np.array_equal(rushlight.isin(t, among.double(), invert=invert).numpy(), expected)
        assert np.array_equal(
            rushlight.isin(t, 7, invert=invert).numpy(), np.isin(x, 7, invert=invert)
        )
    assert rushlight.isin(float(tested[-1]), among).item()
