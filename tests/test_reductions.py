"""Reductions, scans, selection and places against NumPy, at the sizes where their loops change."""

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels

SIZES = [1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 511, 513, 1025, 4097, 9000]
DTYPES = ["float32", "float64", "int64", "int32"]


def with_ties(size, dtype, nan=False):
    """Few different numbers, so that most occur often; NaN here and there."""
    values = np.random.default_rng(size).integers(-3, 4, size).astype(dtype)
    if nan:
        values[size // 2 :: 5] = np.nan
    return values


def assert_same(actual, expected):
    np.testing.assert_array_equal(actual.numpy(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_the_first_of_the_largest(size, dtype):
    for nan in (False, True) if dtype.startswith("float") else (False,):
        x = np.stack([with_ties(size, dtype, nan), with_ties(size, dtype, nan)[::-1]])
        t = rl.from_numpy(x.copy())
        for op, arg in (("max", np.argmax), ("min", np.argmin)):
            values, places = getattr(t, op)(1)
            assert_same(places, arg(x, axis=1))
            assert_same(values, np.take_along_axis(x, arg(x, axis=1)[:, None], 1)[:, 0])
            assert_same(getattr(t.t(), op)(0)[1], arg(x, axis=1))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", SIZES)
def test_complex_sums_and_products(size, dtype):
    rng = np.random.default_rng(size)
    turns = np.exp(1j * rng.uniform(-3, 3, (3, size)))  # of which no product leaves the range
    for x in (turns.astype(dtype), turns.T.astype(dtype).copy().T, turns.astype(dtype)[:, ::-1]):
        t, wide = rl.from_numpy(x.copy()), x.astype("complex128")
        tolerance = 1e-10 if dtype == "complex128" else 4e-7 * size
        for dim in (0, 1):
            np.testing.assert_allclose(t.sum(dim).numpy(), wide.sum(dim), atol=tolerance)
            np.testing.assert_allclose(t.prod(dim).numpy(), wide.prod(dim), atol=tolerance)
        np.testing.assert_allclose(t.sum().numpy(), wide.sum(), atol=3 * tolerance)
        np.testing.assert_allclose(t.prod().numpy(), wide.prod(), atol=3 * tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_of_the_largest_of_all_in_row_major_order(dtype):
    x = with_ties(60 * 70, dtype).reshape(60, 70)
    t = rl.from_numpy(x)
    cube, blocks = x.reshape(10, 6, 70), t.view(10, 6, 70)
    for lies, at in (
        (x, t), (x.T, t.t()), (x[::2, ::3], t[::2, ::3]), (x.T[::-1], t.t().flip(0)),
        (cube.transpose(2, 0, 1), blocks.permute(2, 0, 1)),
        (cube.transpose(1, 2, 0), blocks.permute(1, 2, 0)),
    ):  # fmt: skip
        assert at.argmax().item() == lies.argmax()
        assert at.argmin().item() == lies.argmin()


@pytest.mark.parametrize("size", SIZES)
def test_norms(size):
    x = with_ties(size, "float32")
    t = rl.from_numpy(x)
    for p in (1, 2, np.inf, -np.inf, 3):
        expected = np.linalg.norm(x.astype("float64"), p)
        np.testing.assert_allclose(t.norm(p).item(), expected, rtol=1e-6)
        np.testing.assert_allclose(t[:, None].norm(p, dim=0).numpy(), [expected], rtol=1e-6)
    assert np.signbit(rl.tensor([-0.0] * size).norm(np.inf).numpy()) == False  # noqa: E712
    assert np.isnan(rl.tensor([1.0, np.nan] * size).norm(np.inf).item())
    x[::3] = np.nan
    np.testing.assert_allclose(rl.from_numpy(x).nansum().item(), np.nansum(x), rtol=1e-6)


@pytest.mark.parametrize(
    "shape", [(3, 5, 7), (4, 6, 3000), (5, 1100, 20), (300, 1500), (9, 70, 70)]
)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "bool"])
def test_sums_over_any_dims(shape, dtype):
    x = np.random.default_rng(0).random(shape) * 4
    x = (x / 64 if dtype == "float16" else x).astype(dtype)
    t = rl.from_numpy(x)
    for dims in [(0,), (1,), (len(shape) - 1,), (0, len(shape) - 1), tuple(range(len(shape)))]:
        expected = x.sum(dims, dtype="float64")
        np.testing.assert_allclose(t.sum(dims).double().numpy(), expected, rtol=1e-3)
    assert t.sum(0).dtype == (rl.int64 if dtype in ("int64", "bool") else getattr(rl, dtype))


def rows_in_memory(x):
    """x (a, b, n) as it lies, every second row, with gaps in the rows, expanded, and turned."""
    t = rl.from_numpy(x)
    yield x, t
    yield x[:, ::2], t[:, ::2]
    yield x[:, :, :-1], t[:, :, :-1]
    yield np.broadcast_to(x[:, :1], x.shape), t[:, :1].expand(x.shape)
    yield x.transpose(2, 0, 1), t.permute(2, 0, 1)
    yield x.transpose(1, 2, 0), t.permute(1, 2, 0)


# Short rows are gathered into columns, longer ones folded several at a time.
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int16", "bool"])
@pytest.mark.parametrize("n", [2, 3, 4, 8, 9, 15, 16, 17, 31, 33, 50, 100])
def test_rows_of_every_length(n, dtype):
    x = with_ties(3 * 70 * n, dtype).reshape(3, 70, n)
    for numbers, t in rows_in_memory(x):
        for dims in [(2,), (1,), (0,), (0, 2), (1, 2), (0, 1)]:
            assert_same(t.sum(dims), numbers.sum(dims, dtype=t.sum(dims).numpy().dtype))
            assert_same(t.amax(dims), numbers.max(dims))
            assert_same(t.amin(dims), numbers.min(dims))
            assert_same((t > 2).any(dims), (numbers > 2).any(dims))
            assert_same(t.count_nonzero(dims), np.count_nonzero(numbers, dims))
            if dtype.startswith("float"):
                wide = numbers.astype("float64")
                exact = {"rtol": 1e-3 if dtype == "float16" else 1e-5, "atol": 1e-6}
                variances = t.var(dims, correction=0).numpy()
                np.testing.assert_allclose(variances, wide.var(dims), **exact)
                expected = np.log(np.exp(wide).sum(dims))
                np.testing.assert_allclose(t.logsumexp(dims).numpy(), expected, **exact)
                expected = np.sqrt((wide * wide).sum(dims))
                np.testing.assert_allclose(t.norm(dim=dims).numpy(), expected, **exact)
        for dim in (0, 1, 2):
            if dtype != "bool":
                assert_same(t.argmax(dim), numbers.argmax(dim))
                values, places = t.min(dim)
                assert_same(places, numbers.argmin(dim))
                assert_same(values, numbers.min(dim))
            signs = rl.where(t > 0, 1, -1)
            assert_same(signs.prod(dim), np.where(numbers > 0, 1, -1).prod(dim))
            assert_same(t.bool().all(dim), numbers.astype(bool).all(dim))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 8, 17, 33, 100])
def test_rows_with_infinities_and_nan(n, dtype):
    x = np.random.default_rng(n).standard_normal((64, n)).astype(dtype)
    x[3], x[4, -1], x[5, 0], x[6, -1] = -np.inf, np.inf, np.nan, np.nan
    x[7], x[8] = -0.0, -np.inf
    x[8, -1] = np.inf
    t = rl.from_numpy(x)
    for op in ("max", "min", "sum", "prod"):
        actual = getattr(t, {"max": "amax", "min": "amin"}.get(op, op))(1).numpy()
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(actual, getattr(x, op)(1), rtol=1e-5, atol=1e-5)
    assert_same(t.argmax(1), x.argmax(1))
    assert_same(t.argmin(1), x.argmin(1))
    sums = t.logsumexp(1).numpy()
    assert sums[3] == -np.inf and sums[4] == np.inf and np.isnan(sums[5:7]).all()
    assert sums[8] == np.inf
    np.testing.assert_allclose(sums[:3], np.log(np.exp(x[:3].astype("f8")).sum(1)), rtol=1e-5)
    assert np.isnan(t.norm(dim=1).numpy()[5:7]).all() and t.norm(dim=1)[3] == np.inf
    np.testing.assert_allclose(t.nansum(1).numpy()[5], np.nansum(x[5]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_scans(size, dtype):
    x = with_ties(size, dtype)
    t = rl.from_numpy(x)
    assert_same(t.cumsum(0), np.cumsum(x))
    assert_same(t.flip(0).cumsum(0), np.cumsum(x[::-1]))
    assert_same(rl.stack([t, t], 1)[:, 1].cumsum(0), np.cumsum(x))
    signs = np.where(x > 0, 1, -1).astype(dtype)
    assert_same(rl.from_numpy(signs).cumprod(0), np.cumprod(signs))
    for op, extreme in (("cummax", np.maximum), ("cummin", np.minimum)):
        for lines in (t, rl.stack([t] * 5, 1)[:, 3]):
            values, places = getattr(lines, op)(0)
            assert_same(values, extreme.accumulate(x))
            assert_same(lines[places], extreme.accumulate(x))
            takes = np.concatenate([[True], x[1:] == extreme.accumulate(x)[1:]])
            assert_same(places, np.maximum.accumulate(np.where(takes, np.arange(size), 0)))
        down = getattr(rl.stack([t] * 5, 1), op)(0)
        assert_same(down[0][:, 4], extreme.accumulate(x))
        assert_same(down[1][:, 4], places.numpy())


def test_scans_keep_what_they_met():
    x = rl.tensor([1.0, -np.inf, 2.0, np.nan, 5.0])
    assert x.cummax(0)[1].tolist() == [0, 0, 2, 3, 3] and x.isnan().cummax(0)[0].tolist()[3:] == [
        1,
        1,
    ]
    np.testing.assert_array_equal(x[:3].cumsum(0).numpy(), [1, -np.inf, -np.inf])
    z = rl.tensor([1 + 2j, 3j])
    assert z.logcumsumexp(0)[0] == z[0] and x[:1].logcumsumexp(0) == x[:1]
    wide = rl.full((20,), 2**62)
    np.testing.assert_array_equal(wide.cumsum(0).numpy(), np.cumsum(wide.numpy()))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("size", SIZES)
def test_ranks(size, dtype):
    x = np.random.default_rng(size).permutation(np.arange(size) - size // 2).astype(dtype)
    t = rl.from_numpy(np.stack([x, x[::-1], with_ties(size, dtype)]))
    ordered = np.sort(t.numpy(), 1)
    for k in {1, size // 3 + 1, size}:
        values, places = t.kthvalue(k, 1)
        assert_same(values, ordered[:, k - 1])
        assert_same(t.gather(1, places[:, None])[:, 0], ordered[:, k - 1])
        for largest in (False, True):
            values, places = t.topk(k, 1, largest)
            assert_same(values, ordered[:, ::-1][:, :k] if largest else ordered[:, :k])
            assert_same(t.gather(1, places), values.numpy())
            assert all(len(set(row)) == k for row in places.tolist())
    assert_same(t.median(1)[0], ordered[:, (size - 1) // 2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("size", SIZES)
def test_search(size, dtype):
    edges = np.sort(with_ties(size, dtype))
    values = np.linspace(-5, 5, 700).astype(dtype)
    for side in ("left", "right"):
        expected = np.searchsorted(edges, values, side)
        e, v = rl.from_numpy(edges), rl.from_numpy(values)
        assert_same(rl.searchsorted(e, v, side=side), expected)
        order = np.random.default_rng(0).permutation(size)
        shuffled = np.empty_like(edges)
        shuffled[order] = edges
        found = rl.searchsorted(rl.from_numpy(shuffled), v, side=side, sorter=rl.from_numpy(order))
        assert_same(found, expected)
        rows = rl.searchsorted(rl.stack([e, e + 1]), rl.stack([v, v]), side=side)
        assert_same(rows, np.stack([expected, np.searchsorted(edges + 1, values, side)]))
    if dtype.startswith("float"):
        assert rl.searchsorted(e, rl.tensor([np.nan], dtype=e.dtype)).item() == size


@pytest.mark.parametrize("size", [0, *SIZES])
def test_runs_and_counts(size):
    x = np.sort(with_ties(size, "int64")) % 4
    t = rl.from_numpy(x)
    starts = np.flatnonzero(np.concatenate([[True], x[1:] != x[:-1]])) if size else np.empty(0, int)
    values, inverse, counts = t.unique_consecutive(return_inverse=True, return_counts=True)
    assert_same(values, x[starts])
    assert_same(t.unique_consecutive(), x[starts])
    assert_same(counts, np.diff(np.append(starts, size)))
    assert_same(inverse, np.repeat(np.arange(len(starts)), counts.numpy()))
    assert_same(t.unique(return_counts=True)[1], np.unique(x, return_counts=True)[1])
    assert_same(t.bincount(), np.bincount(x))
    weights = np.linspace(0, 1, size)
    np.testing.assert_allclose(t.bincount(rl.from_numpy(weights)).numpy(), np.bincount(x, weights))
    repeats = rl.from_numpy(x * 7)
    assert_same(rl.arange(size).repeat_interleave(repeats), np.repeat(np.arange(size), x * 7))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("size", SIZES)
def test_masks_take_values_in_order(size, dtype):
    chosen = np.random.default_rng(size).random((2, size)) > 0.5
    x, mask = rl.zeros(2, size, dtype=getattr(rl, dtype)), rl.from_numpy(chosen)
    values = rl.arange(1, 2 * size + 1).to(x.dtype)
    expected = np.zeros((2, size), dtype)
    expected[chosen] = values.numpy()[: chosen.sum()]
    assert_same(x.masked_scatter(mask, values), expected)
    x[mask] = values[: int(chosen.sum())]
    assert_same(x, expected)
    x[mask[:, 0]] = 0
    assert_same(x, expected * ~chosen[:, :1])
    with pytest.raises(RuntimeError):
        x.masked_scatter(rl.ones_like(mask), values[:-1])


@pytest.mark.parametrize("index_dtype", [rl.int64, rl.int32])
@pytest.mark.parametrize("size", SIZES)
def test_gather_and_scatter(size, index_dtype):
    x = np.random.default_rng(size).integers(-9, 9, (3, size)).astype("float32")
    at = np.random.default_rng(0).integers(0, size, (3, size))
    for t, i, d in (
        (rl.from_numpy(x), rl.from_numpy(at), 1),
        (rl.from_numpy(x).t(), rl.from_numpy(at).t(), 0),
    ):
        i = i.to(index_dtype)
        back = (lambda y: y) if d else (lambda y: y.t())
        assert_same(back(t.gather(d, i)), np.take_along_axis(x, at, 1))
        for reduce, ufunc in (("sum", np.add), ("amax", np.maximum), ("amin", np.minimum)):
            expected = x.copy()
            for row in range(3):
                ufunc.at(expected[row], at[row], x[row])
            assert_same(back(t.scatter_reduce(d, i, t, reduce)), expected)
        counts = np.stack([np.bincount(row, minlength=size) for row in at]) + 1
        sums = t.scatter_reduce(d, i, t, "sum")
        np.testing.assert_allclose(
            back(t.scatter_reduce(d, i, t, "mean")).numpy(), back(sums).numpy() / counts, rtol=1e-6
        )
        for wrong in (size, -1):
            bad = i.clone()
            bad[-1, -1] = wrong
            with pytest.raises(RuntimeError, match="out of bounds"):
                t.gather(d, bad)
    nan = rl.tensor([np.nan, 1.0]).scatter_reduce(
        0, rl.tensor([0, 1, 1]), rl.tensor([1.0, np.nan, 2.0]), "amax"
    )
    assert nan.isnan().all()


def bad_places():
    """In-place statements on x (40, 30) with y like it, of which the very last index is bad."""
    last = rl.arange(40) % 30
    last[-1] = 30
    rows = rl.arange(30).repeat(40, 1)
    rows[-1, -1] = 40
    long = rl.arange(1200)
    long[-1] = 1200
    return {
        "scatter_": lambda x, y: x.scatter_(0, rows, y),
        "scatter_ a number": lambda x, y: x.scatter_(0, rows, 7),
        "scatter_ transposed": lambda x, y: x.t().scatter_(1, rows.t(), y.t()),
        "scatter_add_": lambda x, y: x.scatter_add_(0, rows, y),
        "scatter_ below": lambda x, y: x.scatter_(1, rows - 11, y),
        "scatter_reduce_": lambda x, y: x.scatter_reduce_(0, rows, y, "amax", include_self=False),
        "scatter_reduce_ mean": lambda x, y: x.scatter_reduce_(0, rows, y, "mean"),
        "scatter_add_ int32": lambda x, y: x.scatter_add_(0, rows.int(), y),
        "scatter_ shared": lambda x, y: x.scatter_(0, rows[:, -1:].expand(40, 30), y),
        "index_add_": lambda x, y: x.index_add_(1, last, rl.ones(40, 40)),
        "index_copy_": lambda x, y: x.index_copy_(1, last, rl.ones(40, 40)),
        "index_fill_": lambda x, y: x.index_fill_(1, last, 7),
        "index_reduce_": lambda x, y: x.index_reduce_(1, last, rl.ones(40, 40), "prod"),
        "index_put_": lambda x, y: x.index_put_((rl.arange(40), last), y[:, 0]),
        "index_put_ accumulate": lambda x, y: x.index_put_((rl.arange(40), last), y[:, 0], True),
        "x[:, i] = 7": lambda x, y: x.__setitem__((slice(None), last), 7),
        "x[i] += y": lambda x, y: x.__setitem__(rows[:, -1], y),
        "put_": lambda x, y: x.put_(long, y),
        "put_ accumulate": lambda x, y: x.put_(long, y, True),
    }


@pytest.mark.parametrize("statement", bad_places())
def test_a_bad_index_changes_nothing(statement):
    x, y = rl.zeros(40, 30), rl.ones(40, 30)
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        bad_places()[statement](x, y)
    assert not x.any()


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int64", "uint8", "bool"])
def test_slices_that_share_an_index(dtype):
    """Indices expanded over a dim, and places in rows: copied and added row by row."""
    x = (np.random.default_rng(0).integers(0, 9, (6, 20, 33)) % 5).astype(dtype)
    at = np.random.default_rng(1).integers(0, 20, (6, 25))
    t, i = rl.from_numpy(x), rl.from_numpy(at)[:, :, None].expand(6, 25, 33)
    expected = np.take_along_axis(x, at[:, :, None], 1)
    for index in (i, i.int()):
        assert_same(t.gather(1, index), expected)
    src = rl.from_numpy(expected)
    for number, row in ((None, np.add), ("prod", np.multiply)):
        wanted = x.copy()
        for b in range(6):
            row.at(wanted[b], at[b], expected[b])
        got = t.scatter_reduce(1, i, src, number) if number else t.scatter_add(1, i, src)
        assert_same(got, wanted)
        assert_same(t.mT.scatter_reduce(2, i.mT, src.mT, number or "sum").mT, wanted)
    if dtype != "complex64":
        wanted = x.copy()
        np.maximum.at(wanted, (slice(None), at[0]), expected)
        assert_same(t.index_reduce(1, i[0, :, 0], src, "amax"), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int32", "bool"])
@pytest.mark.parametrize(
    "places",
    [
        list(range(40)), list(range(39, -1, -1)), [2, 1, *range(39), 38, 37], [5] * 40,
        [0, 0, *range(40), 39, 39], [*range(0, 40, 2)] * 2, [*range(20), *range(20)], [7],
    ],
)  # fmt: skip
def test_runs_of_places(places, dtype):
    x = np.random.default_rng(0).integers(0, 3, (9, 4, 40)).astype(dtype)
    source = np.random.default_rng(1).integers(0, 3, (9, 4, len(places))).astype(dtype)
    t, y, i = rl.from_numpy(x), rl.from_numpy(source), rl.tensor(places)
    assert_same(t[:, :, i], x[:, :, places])
    assert_same(t.index_select(2, i), x[:, :, places])
    assert_same(t.permute(1, 0, 2).index_select(2, i), x.transpose(1, 0, 2)[:, :, places])
    wanted = x.copy()
    np.add.at(wanted, (slice(None), slice(None), places), source)
    assert_same(t.index_add(2, i, y), wanted)
    wanted = x.copy()
    for k, place in enumerate(places):  # the last of several stays
        wanted[:, :, place] = source[:, :, k]
    assert_same(t.index_copy(2, i, y), wanted)
    wanted[:, :, places] = 1
    assert_same(t.index_copy(2, i, y).index_fill(2, i, 1), wanted)


@pytest.mark.parametrize("shape", [(), (0,), (5000,), (70, 90)])
def test_take(shape):
    x = np.random.default_rng(0).standard_normal((30, 50))
    at = np.random.default_rng(1).integers(-1500, 1500, shape)
    t, i = rl.from_numpy(x), rl.from_numpy(np.asarray(at))
    for numbers, tensor in ((x, t), (x.T, t.t()), (x[::3], t[::3])):
        places = at % numbers.size
        assert_same(tensor.take(i % numbers.size), numbers.take(places))
        assert_same(tensor.take(i % numbers.size - numbers.size), numbers.take(places))
    if at.size > 100:
        assert_same(t.take(i.t()[::2]), x.take(at.T[::2]))
        i = i.clone()
        i.view(-1)[-1] = 1500
        with pytest.raises(IndexError, match="out of"):
            t.take(i)


@pytest.mark.parametrize("dtype", [rl.int8, rl.float16, rl.float32, rl.int64, rl.complex64])
@pytest.mark.parametrize("size", SIZES)
def test_fill(size, dtype):
    x = rl.zeros(size + 2, dtype=dtype)
    x[1:-1].fill_(3)
    assert x.sum().item() == 3 * size or dtype in (rl.int8, rl.float16)
    assert (x[1:-1] == 3).all() and x[0] == 0 and x[-1] == 0


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
@pytest.mark.parametrize("shape", [(40, 64), (300, 65), (7, 1030), (1, 100), (5, 3, 257), (20, 5)])
def test_columns_of_half_precision(shape, dtype):
    values = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    for edges in (False, True):
        if edges:
            values[0, ..., :3], values[-1, ..., 1:4] = np.inf, np.nan
        x = rl.from_numpy(values).to(dtype)
        for t, v in (
            (x, values),
            (x[..., 1:], values[..., 1:]),
            (x[..., ::2], values[..., ::2]),
            (x[:, :1].expand_as(x), np.broadcast_to(values[:, :1], shape)),
        ):
            for d in range(len(shape) - 1):
                assert_same(t.sum(d).float(), v.sum(d))
                assert_same(t.nansum(d).float(), np.nansum(v, d))
                assert_same(t.amax(d).float(), v.max(d))
                assert_same(t.amin(d).float(), v.min(d))
                assert_same(t.norm(1, d).float(), rl.from_numpy(np.abs(v).sum(d)).to(dtype).float())
    middle = rl.from_numpy(values).to(dtype).unsqueeze(1).expand(-1, 3, *shape[1:])
    assert_same(
        middle.sum((0, 1)).float(), rl.from_numpy(3 * values.sum(0)).to(dtype).float().numpy()
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int16",
                                   "int8", "uint8", "bool"])  # fmt: skip
@pytest.mark.parametrize("inner", [2, 3, 4, 7, 16, 33])
@pytest.mark.parametrize("n", [1, 2, 5, 9, 40])
def test_many_small_blocks(n, inner, dtype):
    """Over a dim in the middle of many, over all of narrow rows, and of parts of both."""
    low = 0 if dtype in ("uint8", "bool") else -9
    x = np.random.default_rng(n).integers(low, 10, (70, n, inner)).astype(dtype)
    t = rl.from_numpy(x)
    for lies, at in (
        (x, t),
        (x[..., 1:], t[..., 1:]),
        (x[:, ::2], t[:, ::2]),
        (x[::3], t[::3]),
        (x.swapaxes(0, 1), t.transpose(0, 1)),
        (x[..., ::-1], t.flip(2)),
    ):
        for dim in (0, 1, 2, (0, 1), (0, 2), (0, 1, 2)):
            assert_same(at.sum(dim), lies.astype("float64").sum(dim).astype(at.sum().numpy().dtype))
            assert_same(at.amax(dim), lies.max(dim))
            assert_same(at.amin(dim), lies.min(dim))
            if dtype.startswith("float"):
                wide = lies.astype("float64")
                tolerance = 1e-3 if dtype == "float16" else 1e-5
                np.testing.assert_allclose(at.mean(dim).numpy(), wide.mean(dim), tolerance, 1e-3)
                variance, mean = rl.var_mean(at, dim, correction=0)
                np.testing.assert_allclose(variance.numpy(), wide.var(dim), tolerance, 1e-3)
                np.testing.assert_allclose(mean.numpy(), wide.mean(dim), tolerance, 1e-3)
                logs = np.logaddexp.reduce(wide, axis=dim) if dim.__class__ is int else None
                if logs is not None:
                    got = at.logsumexp(dim).numpy()
                    np.testing.assert_allclose(got, logs, tolerance, 1e-3)
        out = rl.zeros(at.shape[0], 2 * at.shape[2], dtype=t.sum().dtype)
        rl.sum(at, 1, out=out[:, ::2])
        assert_same(out[:, ::2], at.sum(1).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 17])
def test_scans_of_short_rows(n, dtype):
    x = np.random.default_rng(n).integers(-3, 4, (501, n)).astype(dtype)
    x[7] = 0
    for lies, t in (
        (x, rl.from_numpy(x)),
        (x[::2], rl.from_numpy(x)[::2]),
        (x[:, ::2], rl.from_numpy(x)[:, ::2]),
    ):
        assert_same(t.cumsum(1), lies.cumsum(1))
        assert_same(t.cumprod(1), lies.cumprod(1))
    if dtype.startswith("float"):
        t = rl.from_numpy(x).requires_grad_()
        g = np.arange(x.size, dtype=dtype).reshape(x.shape)
        (t.cumsum(1) * rl.from_numpy(g)).sum().backward()  # a scan from the last to the first
        assert_same(t.grad, g[:, ::-1].cumsum(1)[:, ::-1])
        x[3, 0], x[4, -1], x[5, 0] = np.nan, np.inf, -0.0
        assert_same(rl.from_numpy(x).cumsum(1), x.cumsum(1))


# Lines that are scanned many at a time, in tiles that leave a rest, and long ones in pieces: shape
# and dim.
LINES = [
    ((1201, 1), 1), ((1201, 2), 1), ((707, 3), 1), ((301, 7), 1), ((150, 16), 1), ((150, 17), 1),
    ((70, 33), 1), ((20, 300), 1), ((3, 5000), 1), ((2500, 1), 0), ((2500, 2), 0), ((2500, 3), 0),
    ((2500, 7), 0), ((2500, 17), 0), ((700, 33), 0), ((9, 1100), 0), ((97, 5, 16), 1),
    ((301, 2, 3), 1), ((5, 3, 7, 11), 1), ((4, 700, 5), 1), ((3, 9, 600), 1), ((37, 700), 1),
]  # fmt: skip


def layouts(x, dim):
    """The elements of an array as a tensor in several ways, each with the array that it equals."""
    t = rl.from_numpy(x)
    yield t, x
    yield t.transpose(0, -1).contiguous().transpose(0, -1), x
    yield rl.stack([t, t], -1)[..., 1], x
    yield t[1:], x[1:]
    yield t.select(dim, 0).unsqueeze(dim).expand(x.shape), x.take([0] * x.shape[dim], dim)


@pytest.mark.parametrize("dtype", [*DTYPES, "uint8", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize("shape, dim", LINES)
def test_scans_of_tiles(shape, dim, dtype):
    x = np.random.default_rng(0).integers(0 if dtype == "uint8" else -1, 3, shape)
    x[x == 2] = 1  # few zeros, and products without overflow
    for t, v in layouts(x, dim):
        t = t.to(getattr(rl, dtype))
        v = (v != 0).astype(int) if dtype == "bool" else v
        sums = rl.from_numpy(v.cumsum(dim)).to(t.cumsum(dim).dtype)
        assert_same(t.cumsum(dim).to(rl.complex64), sums.to(rl.complex64).numpy())
        assert_same(t.cumprod(dim).to(rl.complex64), v.cumprod(dim))
        assert_same(t.cumsum(dim, dtype=rl.float64), v.cumsum(dim).astype("float64"))
        if dtype == "complex64":
            continue
        for op, extreme in (("cummax", np.maximum), ("cummin", np.minimum)):
            values, places = getattr(t, op)(dim)
            best = extreme.accumulate(v, dim)
            assert_same(values.long(), best)
            number = np.arange(v.shape[dim]).reshape([-1 if d == dim else 1 for d in range(v.ndim)])
            assert_same(places, np.maximum.accumulate(np.where(v == best, number, 0), dim))
        if dtype.startswith(("float", "bfloat")):
            expected = np.log(np.exp(v.astype("float64")).cumsum(dim))
            np.testing.assert_allclose(
                t.logcumsumexp(dim).double().numpy(), expected, rtol=2**-8, atol=2**-9
            )


def product_gradient(x, g):
    """Of cumprod along rows: the product of what comes before, times the sum of what follows."""
    tail, slopes = np.zeros(len(x)), np.empty_like(g)
    for k in reversed(range(x.shape[1])):
        slopes[:, k] = tail = g[:, k] + tail
        tail = tail * x[:, k]
    return slopes * np.concatenate([np.ones((len(x), 1)), x[:, :-1].cumprod(1)], 1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("shape, dim", LINES)
def test_gradients_of_scans_of_tiles(shape, dim, dtype):
    random = np.random.default_rng(2)
    x = np.where(random.random(shape) < 0.03, 0, random.choice([-1, 1], shape)).astype("float64")
    g = random.integers(-2, 3, shape).astype("float64")
    rows = [np.moveaxis(a, dim, -1).reshape(-1, shape[dim]) for a in (x, g)]
    moved = np.moveaxis(x, dim, -1).shape
    slopes = np.moveaxis(product_gradient(*rows).reshape(moved), -1, dim)
    sums = np.flip(np.flip(g, dim).cumsum(dim), dim).copy()
    exact = rl.complex64 if dtype == "complex64" else rl.float64
    for order in (range(x.ndim), reversed(range(x.ndim))):
        axes = list(order)
        t, weights = (rl.from_numpy(a.transpose(axes)).to(getattr(rl, dtype)) for a in (x, g))
        t.requires_grad_()
        for op, expected in (("cumsum", sums), ("cumprod", slopes)):
            out = getattr(t, op)(axes.index(dim))
            grad = rl.autograd.grad(out, t, weights)[0].detach()
            expected = rl.from_numpy(expected.transpose(axes)).to(grad.dtype).to(exact)
            assert_same(grad.to(exact), expected.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape, dim", LINES)
def test_running_extremes_keep_nan(shape, dim, dtype):
    random = np.random.default_rng(1)
    x = random.integers(-4, 5, shape).astype("float64")
    x[random.random(shape) < 2 / shape[dim]] = np.nan
    x[random.random(shape) < 0.1] = -np.inf
    for op, replaces in (("cummax", np.greater_equal), ("cummin", np.less_equal)):
        best, places = np.empty_like(x), np.empty(shape, int)
        steps = [np.moveaxis(a, dim, 0) for a in (x, best, places)]
        steps[1][0], steps[2][0] = steps[0][0], 0
        for i in range(1, shape[dim]):
            v, b = steps[0][i], steps[1][i - 1]
            taken = np.isnan(v) | (~np.isnan(b) & replaces(v, b))
            steps[1][i], steps[2][i] = np.where(taken, v, b), np.where(taken, i, steps[2][i - 1])
        t = rl.from_numpy(x).to(getattr(rl, dtype))
        for lines in (t, t.transpose(0, -1).contiguous().transpose(0, -1)):
            values, at = getattr(lines, op)(dim)
            assert_same(values.double(), best)
            assert_same(at, places)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_counts_of_any_layout(dtype):
    x = np.random.default_rng(0).integers(0, 100, 5003).astype(dtype)
    for step in (1, 2, 3):
        assert_same(rl.from_numpy(x)[::step].bincount(), np.bincount(x[::step]))
    if dtype != "uint8":
        for place in (0, 1501, 5002):
            bad = x.copy()
            bad[place] = -4
            with pytest.raises(RuntimeError, match="non-negative.*-4"):
                rl.from_numpy(bad).bincount()


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "float64", "bool"])
def test_long_runs(dtype):
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(0, 2 if dtype == "bool" else 200, 60), rng.integers(1, 70, 60))
    x = x.astype(dtype)
    if dtype.startswith("float"):
        x[40:60] = np.nan  # each is a run of its own
        x[100], x[101] = 0.0, -0.0
    starts = np.concatenate([[True], x[1:] != x[:-1]])
    assert_same(rl.from_numpy(x).unique_consecutive(), x[starts])
    counts = rl.from_numpy(x).unique_consecutive(return_counts=True)[1]
    assert_same(counts, np.diff(np.append(np.flatnonzero(starts), len(x))))


def test_what_a_result_that_failed_leaves():
    x, i = rl.zeros(4, 1024), rl.zeros(4, 1024, dtype=rl.int64)
    i[3, 1023] = 1024
    for reduce in ("sum", "mean", "amax"):
        for call in (x.scatter_reduce, x.scatter_reduce_):
            with pytest.raises(RuntimeError, match="1024 is out of bounds"):
                call(1, i, rl.ones(4, 1024), reduce, include_self=False)
            assert not x.any()
    with pytest.raises(RuntimeError, match="7 is out of bounds"):
        x.index_reduce(0, rl.tensor([0, 1, 7]), rl.ones(3, 1024), "amax")


@pytest.mark.parametrize("op, ref", [(rl.any, np.any), (rl.all, np.all)])
def test_truth_over_no_dims(op, ref):
    x = rl.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]])
    for keepdim in (False, True):
        assert op(x, dim=(), keepdim=keepdim).tolist() == (x != 0).tolist()
        assert op(x, dim=None, keepdim=keepdim).shape == ((1, 1) if keepdim else ())
        assert_same(op(x, dim=(0, 1), keepdim=keepdim), ref(x.numpy(), keepdims=keepdim))
    assert op(x, keepdim=True).shape == (1, 1) and op(x.byte(), dim=[]).dtype is rl.uint8
    assert rl.vmap(lambda row: op(row, dim=()))(x).shape == (2, 3)
    assert rl.vmap(lambda each: op(each, keepdim=True))(x[:, :, None]).shape == (2, 1, 1)
    assert rl.vmap(lambda each: each.sum(dim=None, keepdim=True))(x[:, :, None]).shape == (2, 1, 1)


@pytest.mark.parametrize("name", ["min", "max"])
def test_nans_share_the_gradient_of_an_extreme_that_is_nan(name):
    nan = float("nan")
    for values, expected in (
        ([nan, nan], [0.5, 0.5]),
        ([1, nan, 1], [0, 1, 0]),
        ([2, 2], [0.5] * 2),
    ):
        x = rl.tensor([float(v) for v in values], requires_grad=True)
        getattr(rl, name)(x).backward()
        assert x.grad.tolist() == expected


@pytest.mark.parametrize("order", [2, 3, 1, -1, 0.5, float("inf"), float("-inf")])
def test_norms_of_single_elements_are_their_magnitudes(order):
    x = rl.tensor([[3.0], [-2.0], [1e30], [0.0], [float("-inf")]])
    assert rl.linalg.vector_norm(x, order, dim=1).tolist() == x.abs().flatten().tolist()
    assert rl.linalg.vector_norm(x.t(), order, dim=0, keepdim=True).shape == (1, 5)
    assert rl.linalg.vector_norm(rl.tensor(-2 + 0j), order).item() == 2


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("args", [(0, False), (1, True), (-1, False, True), ((0, 1), False), (0,)])
def test_whether_unbiased_after_the_dim(name, args):
    """A truth value after a dim says whether the result is unbiased: it is no second dim."""
    x = rl.randn(3, 4)
    dim, unbiased, keepdim = (*args, *(None, True, False)[len(args) :])
    expected = getattr(np, name)(x.numpy(), dim, ddof=int(unbiased), keepdims=keepdim)
    for found in (getattr(x, name)(*args), getattr(rl, name)(x, *args)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_dims_one_by_one_are_integers():
    x = rl.arange(6).reshape(2, 3)
    assert x.count_nonzero(0, 1) == 5
    with pytest.raises(TypeError, match="count_nonzero"):
        x.count_nonzero(0, True)
