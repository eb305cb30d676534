"""Reading and writing at computed places, and the loops that pick or count elements: sizes at which
kernels change their way, beside plain references."""

import itertools

import numpy as np
import pytest

import rushlight

pytestmark = pytest.mark.kernels


def rows(*sizes):
    return rushlight.arange(float(np.prod(sizes))).reshape(sizes) % 97 - 48


def by_hand(self, dim, index, src, combine):
    result = self.numpy().copy()
    for place in np.ndindex(*index.shape):
        to = list(place)
        to[dim] = index.numpy()[place]
        result[tuple(to)] = combine(result[tuple(to)], src.numpy()[place])
    return result


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("width", [1, 3, 65, 130])
def test_indices_that_all_lines_share(dim, width):
    count, size = 40, 7
    x, src = rows(size, width), rows(count, width)
    index = (rushlight.arange(count) * 5 % size).reshape(count, 1).expand(count, width)
    if dim == 1:
        x, src, index = x.t().contiguous(), src.t(), index.t()
    expected = by_hand(x, dim, index, src, lambda a, b: a + b)
    assert (x.scatter_add(dim, index, src).numpy() == expected).all()
    expected = by_hand(x, dim, index, src, lambda a, b: b)
    assert (x.scatter(dim, index, src).numpy() == expected).all()
    expected = by_hand(x, dim, index, src, max)
    assert (x.scatter_reduce(dim, index, src, "amax").numpy() == expected).all()
    assert (x.gather(dim, index).numpy() == np.take_along_axis(x.numpy(), index.numpy(), dim)).all()


def test_shared_indices_of_fewer_lines_than_self_has():
    x, src = rows(5, 8), rows(9, 10)
    index = rushlight.tensor([[0], [4], [0], [2]]).expand(4, 6)
    expected = by_hand(x, 0, index, src, lambda a, b: a + b)
    assert (x.scatter_add(0, index, src).numpy() == expected).all()
    assert (x.gather(0, index).numpy() == x.numpy()[[0, 4, 0, 2], :6]).all()


@pytest.mark.parametrize("bad", [5, -1])
def test_a_shared_index_outside_is_named_before_anything_is_written(bad):
    x = rows(5, 70)
    kept = x.clone()
    index = rushlight.tensor([[0], [bad]]).expand(2, 70)
    message = f"index {bad} is out of bounds for dimension 0 with size 5"
    with pytest.raises(RuntimeError, match=message):
        x.scatter_add_(0, index, rows(2, 70))
    assert (x == kept).all()
    with pytest.raises(RuntimeError, match=message):
        x.gather(0, index)


@pytest.mark.parametrize("count", [1, 3, 4, 200])
def test_one_index_per_line(count):
    x, index = rows(count, 9), rushlight.arange(count).reshape(count, 1) * 4 % 9
    expected = np.take_along_axis(x.numpy(), index.numpy(), 1)
    assert (x.gather(1, index).numpy() == expected).all()
    added = x.scatter_add(1, index, rushlight.ones(count, 1))
    assert (added - x).sum() == count and (added.gather(1, index).numpy() == expected + 1).all()


@pytest.mark.parametrize("width", [1, 63, 64, 1030, 4096, 5000])
def test_slices_of_any_width_are_added_in_order(width):
    x, src = rows(6, width), rows(50, width) * 1e-3
    index = rushlight.arange(50) * 7 % 6
    expected = x.numpy().copy()
    for place, row in zip(index.tolist(), src.numpy()):
        expected[place] += row
    assert (x.index_add(0, index, src).numpy() == expected).all()
    strided = rushlight.zeros(6, 2 * width)[:, ::2]
    strided.copy_(x)
    assert (strided.index_add_(0, index, src).numpy() == expected).all()


@pytest.mark.parametrize("dtype", [
    rushlight.float32, rushlight.float64, rushlight.bfloat16, rushlight.float16, rushlight.int64,
    rushlight.int16, rushlight.uint8, rushlight.bool, rushlight.complex64,
], ids=str)  # fmt: skip
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 11, 12, 13, 16, 24, 33, 64, 65, 130])
@pytest.mark.parametrize("count", [3, 20, 50, 700])
def test_short_slices_along_either_dim(width, count, dtype):
    """Rows of a table and columns of one, read, written and added to, in order."""
    rng = np.random.default_rng(width)
    places = rng.integers(0, 5, count)
    index = rushlight.from_numpy(places)
    table = rushlight.from_numpy(rng.integers(0, 4, (5, width))).to(dtype)
    values = rushlight.from_numpy(rng.integers(0, 3, (count, width))).to(dtype)

    def numbers(t):
        return (t if t.dtype.is_complex else t.double()).numpy()

    added, written = numbers(table).copy(), numbers(table).copy()
    for i, place in enumerate(places):
        added[place] += numbers(values)[i]
        written[place] = numbers(values)[i]
    if dtype == rushlight.bool:
        added = np.minimum(added, 1)
    elif dtype == rushlight.uint8:
        added %= 256
    exact = dtype not in (rushlight.bfloat16, rushlight.float16) or count < 50
    for wide in (False, True):
        rows_of, of = (t.repeat(1, 2)[:, :width] if wide else t for t in (table, values))
        for columns in (False, True):
            dim = int(columns)
            x, v = (t.t().contiguous() if columns else t for t in (rows_of, of))
            at = (slice(None), index) if columns else (index,)

            def same(got, expected, dim=dim):
                got = numbers(got)
                np.testing.assert_array_equal(got.T if dim else got, expected)

            same(x.index_select(dim, index), numbers(table)[places])
            same(x[at], numbers(table)[places])
            same(x.index_copy(dim, index, v), written)
            changed = x.clone()
            changed[at] = v
            same(changed, written)
            if exact:
                same(x.index_add(dim, index, v), added)
                across = v.t().contiguous().t()
                same(x.index_add(dim, index, across), added)
                if not columns:
                    same(x.index_put(at, v, accumulate=True), added)


@pytest.mark.parametrize("width, count", [(1, 5000), (8, 300), (64, 700), (200, 900)])
def test_gradient_of_an_embedding(width, count):
    weight = rows(11, width).requires_grad_()
    index = rushlight.arange(count) * 3 % 11
    grad = rows(count, width)
    rushlight.nn.functional.embedding(index, weight, padding_idx=4).backward(grad)
    expected = np.zeros((11, width), np.float32)
    for place, row in zip(index.tolist(), grad.numpy()):
        expected[place] += row * (place != 4)
    assert (weight.grad.numpy() == expected).all()


def lines_for_topk():
    generator = np.random.default_rng(3)
    for n in (255, 256, 1000, 1500):
        yield generator.standard_normal(n).astype(np.float32)
        yield generator.integers(-4, 4, n)  # many equals
        yield np.zeros(n)
        few = generator.standard_normal(n)
        few[::50] = np.nan
        few[7::60] = np.inf
        yield few
    yield np.full(300, np.nan, np.float32)
    yield np.full(300, np.iinfo(np.int32).max, np.int32)


@pytest.mark.parametrize("k", [1, 5, 32, 33])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_is_the_head_of_a_stable_sort(k, largest):
    for line in lines_for_topk():
        x = rushlight.from_numpy(line)
        values, places = x.topk(k, largest=largest)
        all_values, all_places = x.sort(descending=largest, stable=True)
        assert (places == all_places[:k]).all()
        assert np.array_equal(
            values.numpy(), all_values[:k].numpy(), equal_nan=line.dtype.kind == "f"
        )


@pytest.mark.parametrize("bins", [1, 5, 2048, 2049])
@pytest.mark.parametrize("count", [0, 1, 4097, 9999])
def test_bincount(bins, count):
    x = rushlight.arange(count) * 31 % bins
    assert (x.bincount(minlength=bins).numpy() == np.bincount(x.numpy(), minlength=bins)).all()
    assert (x.int().bincount().numpy() == np.bincount(x.numpy())).all()


@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64, rushlight.bfloat16])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 64, 77, 300])
def test_extremes_meet_nan_wherever_it_is(dtype, n):
    x = (rows(n) * 0.25).to(dtype)
    assert x.amax() == max(x.tolist()) and x.amin() == min(x.tolist())
    for place in {0, n // 3, n // 2, n - 1}:
        y = x.clone()
        y[place] = float("nan")
        assert y.amax().isnan() and y.amin().isnan()
        both = rushlight.stack([y, x])
        assert both.amax(1).isnan().tolist() == [True, False]
        assert both.amin(0).isnan().sum() == 1


@pytest.mark.parametrize("dtype", [rushlight.float16, rushlight.bfloat16])
def test_signs_of_16_bit_numbers_change_no_other_bit(dtype):
    bits = rushlight.arange(-(1 << 15), 1 << 15, dtype=rushlight.int16)
    x = bits.view(dtype)
    assert ((-x).view(rushlight.int16) == bits ^ rushlight.tensor(-(1 << 15)).short()).all()
    assert (x.abs().view(rushlight.int16) == bits & 0x7FFF).all()
    every_second = x.reshape(-1, 2)[:, 1]
    assert ((-every_second).view(rushlight.int16) == (-x).view(rushlight.int16)[1::2]).all()
    out = rushlight.empty(x.shape)
    assert rushlight.neg(x[:9].float(), out=out[:9]).tolist()[0] == 0.0
    assert (-rushlight.ones(3, dtype=dtype) + x[:3].float()).dtype == rushlight.float32


IN_REGISTERS = {
    **dict.fromkeys("floor ceil trunc round sqrt rsqrt reciprocal square".split(), 1),
    **dict.fromkeys(("maximum", "minimum", "copysign"), 2),
    **dict.fromkeys(("lerp", "addcmul"), 3),
}


@pytest.mark.parametrize("dtype", [rushlight.float16, rushlight.bfloat16])
@pytest.mark.parametrize("name, count", IN_REGISTERS.items())
def test_16_bit_numbers_are_rounded_once_from_what_floats_give(name, count, dtype):
    """All of them, NaN and signs of zero among them, and pieces that fill no vector."""
    bits = rushlight.arange(-(1 << 15), 1 << 15, dtype=rushlight.int16)
    order = rushlight.arange(1 << 16)
    operands = [bits[order * k % (1 << 16)].view(dtype) for k in (1, 40503, 30011)[:count]]
    op = getattr(rushlight, name)

    def check(*operands):
        found, expected = op(*operands), op(*(x.float() for x in operands)).to(dtype)
        same = (found == expected) & (found.signbit() == expected.signbit())
        assert (same | (found.isnan() & expected.isnan())).all()

    for n in (1 << 16, 77, 5):
        check(*(x[-n:] for x in operands))
    check(*(x[1::3] for x in operands))
    first, *others = operands
    if others:
        check(first.view(64, -1), *(x[:64, None] for x in others))
        check(first.view(64, -1), *(x[: 1 << 10] for x in others))


@pytest.mark.parametrize("width", [1, 64, 65, 513, 1024, 2049])
def test_columns_and_numbers_that_repeat(width):
    for dtype in (rushlight.float32, rushlight.int64, rushlight.bfloat16):
        x, column = rows(5, width).to(dtype), rows(5, 1).to(dtype)
        expected = (x.double().numpy() + column.double().numpy()).clip(-20, 30)
        assert (rushlight.clamp(x + column, -20, 30).double().numpy() == expected).all()
        low = rows(1, width).to(dtype) - 60
        least = rushlight.maximum(column, low)
        expected = np.maximum(x.double().numpy(), least.double().numpy())
        assert (rushlight.clamp(x, min=least).double().numpy() == expected).all()


@pytest.mark.parametrize("sizes, dim", list(itertools.product([(70, 130), (3, 5, 7)], [0, 1])))
def test_softmax_across_lines(sizes, dim):
    x = (rows(*sizes) * 0.1).double()
    powers = np.exp(x.numpy())
    np.testing.assert_allclose(x.softmax(dim).numpy(), powers / powers.sum(dim, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("sizes", [(8, 32, 65), (9, 3, 40), (40, 12, 2)], ids=str)
def test_softmax_of_every_order_in_memory(sizes, order, dtype):
    given = (rows(*sizes) * 0.1).to(getattr(rushlight, dtype))
    back = [order.index(d) for d in range(3)]
    x = given.permute(order).contiguous().permute(back)
    for function, dim in itertools.product((rushlight.softmax, rushlight.log_softmax), range(3)):
        result, expected = function(x, dim), function(given, dim)
        assert result.stride() == expected.stride()
        rushlight.testing.assert_close(result, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int16", "complex128"])
@pytest.mark.parametrize("index_dtype", ["int64", "int32"])
def test_single_elements_are_selected(dtype, index_dtype):
    table = rows(90).to(getattr(rushlight, dtype))
    for x in (table, rows(2, 90).to(table.dtype).t()[:, 1]):
        index = (rushlight.arange(1300) * 7 % 90).to(getattr(rushlight, index_dtype))
        for places in (index, index[::3], index[:0]):
            expected = x.numpy()[places.numpy()]
            assert (x.index_select(0, places).numpy() == expected).all()
        for outside in (90, -1):
            index[1201] = outside
            with pytest.raises(IndexError, match=f"index_select: index {outside} is out of bounds"):
                x.index_select(0, index)
            with pytest.raises(RuntimeError, match=f"gather: index {outside} is out of bounds"):
                x.gather(0, index.long())


@pytest.mark.parametrize("op", ["scatter_reduce", "index_reduce"])
def test_bools_have_no_mean(op):
    x, source = rushlight.tensor([True, False]), rushlight.tensor([False, True])
    with pytest.raises(NotImplementedError, match="no mean of elements of dtype torch.bool"):
        getattr(x, op)(0, rushlight.tensor([0, 0]), source, "mean")


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_second_derivatives_of_products_with_zeros(zeros, include_self):
    x = rushlight.tensor([2.0, 3.0], dtype=rushlight.float64, requires_grad=True)
    values = rushlight.tensor([5.0, 7.0, 1.5, 0.5], dtype=rushlight.float64)
    values[:zeros] = 0
    index = rushlight.tensor([0, 0, 0, 1])
    for name in ("scatter_reduce", "index_reduce"):

        def product(x, source, name=name):
            return getattr(x, name)(0, index, source, "prod", include_self=include_self)

        point = (x, values.clone().requires_grad_())
        assert rushlight.autograd.gradcheck(product, point)
        assert rushlight.autograd.gradgradcheck(product, point)


# Points of few coordinates: (clouds, points, coordinates), in memory as they are named or turned.
POINTS = [(40, 3, 2), (40, 17, 3), (70, 2, 5), (3, 700, 3), (2, 90, 12)]
KINDS = ["float32", "float64", "int64", "float16", "complex64"]


def points(sizes, dtype, turned=False):
    x = rows(*sizes)
    if dtype == "complex64":
        x = rushlight.complex(x, -x.flip(1))
    x = x.to(getattr(rushlight, dtype))
    return x.transpose(1, 2).contiguous().transpose(1, 2) if turned else x


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("sizes", POINTS)
def test_along_points_of_few_coordinates(sizes, dtype, turned):
    x = points(sizes, dtype, turned)
    y = x.numpy().astype({"float16": "float64", "complex64": "complex128"}.get(dtype, dtype))
    exact = dict(rtol=1e-3 if dtype == "float16" else 1e-6, atol=1e-6)
    np.testing.assert_allclose(x.cumsum(1).numpy(), y.cumsum(1), **exact)
    order = rushlight.arange(sizes[1]).flip(0)[: sizes[1] // 2 + 1]
    assert (x.index_select(1, order).numpy() == x.numpy()[:, order.numpy()]).all()
    if dtype == "complex64":
        return
    values, places = x.max(1)
    assert (values.numpy() == x.numpy().max(1)).all()
    assert (x.gather(1, places[:, None])[:, 0].numpy() == values.numpy()).all()
    highest = x.cummax(1)
    assert (highest.values.numpy() == np.maximum.accumulate(x.numpy(), 1)).all()
    assert (x.gather(1, highest.indices).numpy() == highest.values.numpy()).all()
    if dtype != "int64":
        powers = np.exp(y - y.max(1, keepdims=True))
        expected = powers / powers.sum(1, keepdims=True)
        np.testing.assert_allclose(x.softmax(1).numpy(), expected, **exact)
        logs = np.log(np.maximum(expected, 1e-300))
        np.testing.assert_allclose(x.log_softmax(1).numpy(), logs, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("sizes", POINTS)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_and_scatter_of_points(sizes, dtype, turned, dim):
    x = points(sizes, dtype, turned)
    # Fewer places than x has in the first dim, and as many or more in the others.
    among = [sizes[0] - 1, *sizes[1:]]
    among[dim] = sizes[dim] + 2
    index = (rushlight.arange(float(np.prod(among))).reshape(among) * 7 % sizes[dim]).long()
    where = list(np.ogrid[tuple(slice(n) for n in among)])
    where[dim] = index.numpy()
    assert (x.gather(dim, index).numpy() == x.numpy()[tuple(where)]).all()
    values = points(among, dtype)
    expected = x.numpy().astype("complex128" if dtype == "complex64" else "float64")
    np.add.at(expected, tuple(where), values.numpy())
    found = x.scatter_add(dim, index, values).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-6)
    assert (x.gather(dim, index.transpose(0, 1).contiguous().transpose(0, 1)).numpy()
            == x.numpy()[tuple(where)]).all()  # fmt: skip
    beyond = index.clone()
    beyond[-1, -1, -1] = sizes[dim]
    for call in (lambda: x.gather(dim, beyond), lambda: x.scatter_add(dim, beyond, values)):
        with pytest.raises(RuntimeError, match=f"index {sizes[dim]} is out of bounds"):
            call()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_many_16_bit_numbers_are_added_in_float32(dtype):
    """Their sum is rounded once: in 16 bits it would stop at 2,048, or at 256."""
    ones = rushlight.ones(3000, dtype=getattr(rushlight, dtype))
    place = rushlight.zeros(3000, dtype=rushlight.int64)
    empty = rushlight.zeros(4, dtype=ones.dtype)
    expected = rushlight.tensor([3000, 0, 0, 0]).to(ones.dtype).tolist()
    assert empty.scatter_add(0, place, ones).tolist() == expected
    assert empty.index_add(0, place, ones).tolist() == expected
    assert empty.index_put((place,), ones, accumulate=True).tolist() == expected
    assert empty.put(place, ones, accumulate=True).tolist() == expected
    mean = empty.scatter_reduce(0, place, ones, "mean", include_self=False)
    assert mean.tolist() == [1, 0, 0, 0]
    assert empty.add(1)[1:].scatter_add(0, place[:0], ones).tolist() == [1, 1, 1]


def test_windows_of_more_elements_than_a_million():
    image = rushlight.arange(2 * 1100 * 1100.0).reshape(1, 2, 1100, 1100)
    pool = rushlight.nn.functional.max_pool2d
    for x in (image, image.contiguous(memory_format=rushlight.channels_last)):
        values, places = pool(x, 1100, return_indices=True)
        assert values.flatten().tolist() == image.amax((2, 3)).flatten().tolist()
        assert places.flatten().tolist() == [1100 * 1100 - 1] * 2


@pytest.mark.parametrize("kernel", [9, 1 << 20, (1 << 31) - 1])
def test_windows_wider_than_the_plane(kernel):
    """What lies in the padding alone takes no time."""
    functions = rushlight.nn.functional
    x = rushlight.arange(50.0).reshape(1, 2, 5, 5)
    for image in (x, x.contiguous(memory_format=rushlight.channels_last), x.mT):
        for stride in (1, 3):
            pooled = functions.max_pool2d(image, kernel, stride, kernel // 2)
            assert (pooled == image.amax((2, 3), keepdim=True)).all()
            mean = functions.avg_pool2d(image, kernel, stride, kernel // 2, count_include_pad=False)
            expected = image.mean((2, 3), keepdim=True).expand_as(mean)
            np.testing.assert_allclose(mean.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_pooling_of_sequences_with_their_channels_last(turned):
    x = points((4, 50, 3), "float32").transpose(1, 2)
    x = x if turned else x.contiguous()
    functions = rushlight.nn.functional
    pooled = functions.max_pool1d(x, 2)
    assert (pooled.numpy() == x.numpy().reshape(4, 3, 25, 2).max(3)).all()
    images = rows(2, 16, 9, 10)
    if turned:
        images = images.contiguous(memory_format=rushlight.channels_last)
    for dtype in (rushlight.float32, rushlight.float64, rushlight.bfloat16):
        values, places = functions.adaptive_max_pool2d(
            images.to(dtype), (3, 5), return_indices=True)  # fmt: skip
        expected = images.numpy().reshape(2, 16, 3, 3, 5, 2).max((3, 5))
        assert (values.float().numpy() == expected).all()
        assert (images.reshape(2, 16, -1).gather(2, places.reshape(2, 16, -1)).numpy()
                == expected.reshape(2, 16, -1)).all()  # fmt: skip


def test_slices_of_a_tensor_without_dims():
    number, two = rushlight.tensor(2.0, requires_grad=True), rushlight.tensor([0, 0])
    index, one = rushlight.tensor([0]), rushlight.ones(1, requires_grad=True)
    for add in (rushlight.index_add, lambda *a: rushlight.index_reduce(*a, "amax")):
        for i, source in ((index, one), (two, rushlight.ones(2))):
            with pytest.raises(RuntimeError, match=r"source has shape \[\d\], expected \[\]"):
                add(number, 0, i, source)
        with pytest.raises(IndexError, match="a tensor without dims is one slice, got 2 indices"):
            add(number, 0, two, rushlight.tensor(1.0))
    out = number.scatter_reduce(0, index, one, "prod") + number.index_copy(0, index, one)
    out.backward()
    assert out.item() == 3 and number.grad.item() == 1 and one.grad.tolist() == [3]
    assert number.index_fill(0, two, 5).item() == 5
    with pytest.raises(RuntimeError, match="must have same slice shapes"):
        rushlight.zeros(2, 2).index_copy(0, index, rushlight.tensor(1.0))
