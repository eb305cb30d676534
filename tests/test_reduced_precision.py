"""Products of 16-bit floats beside the exact ones: each is rounded once, from sums in float.

Which kernel computes them depends on the instruction set more than elsewhere: AVX512 is tested with
products of bfloat16 (`--isa avx512_bf16`) and without them (`--isa avx512`).
"""

import itertools

import numpy as np
import pytest

import rushlight

pytestmark = pytest.mark.kernels

F = rushlight.nn.functional
UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # half the distance between neighbours of 1
SUM = 2.0**-22  # what sums in float may be off by, of the sum of magnitudes
# (m, k, n): vectors and few rows of either matrix, odd depths, edges of tiles, several blocks.
SIZES = [(1, 1, 1), (2, 3, 1), (8, 32, 32), (17, 33, 49), (1, 70, 130), (130, 70, 1), (3, 65, 64),
         (5, 513, 8), (64, 40, 300), (300, 530, 65), (12, 1100, 45), (45, 1100, 12), (3, 5000, 5),
         (1, 1030, 2100), (70, 2500, 100)]  # fmt: skip
LAYOUTS = ["rows", "columns", "steps"]


def draw(dtype, *shape, layout="rows"):
    x = rushlight.randn(*shape).to(getattr(rushlight, dtype))
    if layout == "columns":
        return x.mT.contiguous().mT
    if layout == "steps":
        wide = rushlight.zeros(*shape[:-2], 2 * shape[-2], 3 * shape[-1], dtype=x.dtype)
        wide[..., ::2, 1::3] = x
        return wide[..., ::2, 1::3]
    return x


def check(found, terms, dtype):
    """`found` beside the sum of `terms`, pairs of matrices in double that are multiplied."""
    exact = sum(x @ y for x, y in terms)
    magnitude = sum(abs(x) @ abs(y) for x, y in terms)
    assert found.dtype == getattr(rushlight, dtype)
    error = abs(found.double().numpy() - exact)
    assert (error <= abs(exact) * UNIT[dtype] + magnitude * SUM).all()


def double(t):
    return t.double().numpy()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("dtype", UNIT)
def test_products_of_every_layout(dtype, size):
    m, k, n = size
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        a, b = draw(dtype, m, k, layout=left), draw(dtype, k, n, layout=right)
        check(a @ b, [(double(a), double(b))], dtype)
    a, b = draw(dtype, 3, m, k, layout="columns"), draw(dtype, 3, k, n, layout="steps")
    check(a @ b, [(double(a), double(b))], dtype)
    check(a @ b[0], [(double(a), double(b[0]))], dtype)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("dtype", UNIT)
def test_linear_and_addmm_round_once(dtype, size):
    m, k, n = size
    x, w, bias, c = draw(dtype, m, k), draw(dtype, n, k), draw(dtype, n), draw(dtype, n, m).t()
    ones = np.ones((m, 1))
    product = (double(x), double(w).T)
    check(F.linear(x, w, bias), [product, (ones, double(bias)[None])], dtype)
    check(rushlight.addmm(c, x, w.t(), beta=2), [product, (double(c), 2 * np.eye(n))], dtype)
    out = rushlight.empty(n, m, dtype=x.dtype).t()
    check(rushlight.mm(x, w.t(), out=out), [product], dtype)


@pytest.mark.parametrize("dtype", UNIT)
def test_bits_do_not_depend_on_threads(dtype):
    threads = rushlight.get_num_threads()
    try:
        for m, k, n in SIZES:
            a, b, bias = draw(dtype, m, k), draw(dtype, n, k), draw(dtype, n)
            found = []
            for count in (1, 3):
                rushlight.set_num_threads(count)
                columns = a.t().contiguous().t()
                found.append((F.linear(a, b, bias), a @ b.t().contiguous(), columns @ b.t()))
            for one, three in zip(*found, strict=True):
                assert one.equal(three)
    finally:
        rushlight.set_num_threads(threads)


@pytest.mark.parametrize("dtype", UNIT)
def test_special_values_pass_through_products(dtype):
    for m, n in [(1, 40), (3, 40), (40, 2), (20, 40)]:
        a, b = draw(dtype, m, 64), draw(dtype, 64, n)
        a[0, 5], b[7, 1] = float("inf"), float("nan")
        for y in (b, b.t().contiguous().t()):
            found = (a @ y).float()
            assert found[:, 1].isnan().all() and not found[1:, 2:].isinf().any()
            assert found[0, 0].isinf() and (m == 1 or found[1, 0].isfinite())


# Input, weight, stride, padding, dilation, groups.
CONVOLUTIONS = [
    ((2, 16, 9, 9), (24, 16, 3, 3), 1, 1, 1, 1), ((2, 16, 9, 9), (24, 16, 3, 3), 2, 1, 1, 1),
    ((4, 64, 14, 14), (32, 64, 1, 1), 1, 0, 1, 1), ((3, 8, 9, 7), (8, 1, 3, 3), 1, 1, 1, 8),
    ((2, 12, 9, 9), (24, 6, 5, 3), 2, 2, 1, 2), ((1, 3, 30, 30), (16, 3, 7, 7), 2, 3, 1, 1),
    ((2, 16, 12, 12), (8, 16, 3, 3), 1, 2, 2, 1), ((2, 4, 6, 7, 8), (6, 4, 3, 3, 3), 1, 1, 1, 1),
    ((2, 8, 40), (12, 8, 5), 1, 2, 1, 1), ((2, 7, 9, 9), (5, 7, 3, 3), 2, 1, 1, 1),
    ((1, 600, 6, 5), (40, 600, 3, 3), 1, 1, 1, 1), ((2, 34, 9, 9), (52, 17, 3, 3), 1, 1, 1, 2),
    ((2, 16, 9, 9), (16, 4, 3, 3), 1, 1, 1, 4),
    ((2, 64, 7, 5), (3, 64, 3, 3), 1, 1, 1, 1)]  # fmt: skip


def convolved(tensors, arguments, slopes):
    """A convolution and its gradients, as arrays of double."""
    x, w, b = (t.detach().clone().requires_grad_() for t in tensors)
    conv = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
    y = conv(x, w, b, *arguments)
    y.backward(slopes(y))
    return [double(t.detach()) for t in (y, x.grad, w.grad, b.grad)]


@pytest.mark.parametrize("last", [False, True], ids=["channels_first", "channels_last"])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("dtype", UNIT)
def test_convolutions_and_their_gradients_round_once(dtype, case, last):
    size, weight, *arguments = case
    tensors = [draw(dtype, *shape) for shape in (size, weight, weight[:1])]
    if last:
        tensors[0] = tensors[0].movedim(1, -1).contiguous().movedim(-1, 1)
    wide = [t.double() for t in tensors]
    g = draw(dtype, *F.conv2d(*tensors, *arguments).shape) if len(size) == 4 else None

    def slopes(y):
        return rushlight.ones_like(y) if g is None else g.to(y.dtype)

    found = convolved(tensors, arguments, slopes)
    exact = convolved(wide, arguments, slopes)
    magnitude = convolved([t.abs() for t in wide], arguments, lambda y: slopes(y).abs())
    for x, y, m in zip(found, exact, magnitude, strict=True):
        assert (abs(x - y) <= abs(y) * UNIT[dtype] + m * 4 * SUM).all()


@pytest.mark.parametrize("last", [False, True], ids=["channels_first", "channels_last"])
@pytest.mark.parametrize("dtype", UNIT)
def test_norms_and_pools_of_images_are_those_of_floats(dtype, last):
    x = draw(dtype, 3, 20, 13, 11)
    x[0, 3, 4, 5], x[1, :, :4, :4] = float("nan"), -float("inf")
    y = draw(dtype, 3, 20, 13, 11)
    if last:
        x, y = (t.contiguous(memory_format=rushlight.channels_last) for t in (x, y))
    for arguments in [(3, 2, 1), (2, 2, 0), (3, 1, 1), (3, 2, 1, 2)]:
        narrow, wide = x.clone().requires_grad_(), x.float().requires_grad_()
        found, places = F.max_pool2d(narrow, *arguments, return_indices=True)
        expected, others = F.max_pool2d(wide, *arguments, return_indices=True)
        assert found.dtype == x.dtype and places.equal(others)
        np.testing.assert_array_equal(double(found.detach()), double(expected.detach()))
        g = draw(dtype, *found.shape)
        found.backward(g)
        expected.backward(g.float())
        np.testing.assert_array_equal(double(narrow.grad), double(wide.grad.to(x.dtype)))
    w, b = rushlight.rand(20) + 0.5, rushlight.randn(20)
    narrow, wide = y.clone().requires_grad_(), y.float().requires_grad_()
    found = F.batch_norm(narrow, None, None, w.to(y.dtype), b.to(y.dtype), True)
    expected = F.batch_norm(wide, None, None, w.to(y.dtype).float(), b.to(y.dtype).float(), True)
    g = draw(dtype, *y.shape)
    found.backward(g)
    expected.backward(g.float())
    for one, other in [(found, expected), (narrow.grad, wide.grad)]:
        one, other = double(one.detach()), double(other.detach())
        assert (abs(one - other) <= abs(other) * UNIT[dtype] + 1e-5).all()


@pytest.mark.parametrize("dtype", [rushlight.bfloat16, rushlight.float16])
@pytest.mark.parametrize(("m", "k", "n"), [(2, 3, 2), (3, 5, 9), (2, 4, 2), (9, 5, 3), (4, 16, 40)])
def test_few_rows_are_added_to_something(m, k, n, dtype):
    a, b, plus = (rushlight.randn(*size).to(dtype) for size in ((m, k), (k, n), (m, n)))
    expected = rushlight.addmm(plus.double(), a.double(), b.double(), beta=0.5, alpha=2)
    found = rushlight.addmm(plus, a, b, beta=0.5, alpha=2).double()
    assert (found - expected).abs().max() <= rushlight.finfo(dtype).eps * expected.abs().max()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("layout", ["rows", "columns", "steps"])
def test_average_pooling_is_that_of_floats(layout, dtype):
    x = draw(dtype, 3, 5, 13, 18, layout=layout)
    if layout == "columns":
        x = x.contiguous(memory_format=rushlight.channels_last)
    for pool in (
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    ):
        narrow, wide = x.detach().requires_grad_(), x.detach().float().requires_grad_()
        found, expected = pool(narrow), pool(wide)
        assert rushlight.equal(found, expected.to(found.dtype))
        grad = draw(dtype, *found.shape)
        ours = rushlight.autograd.grad(found, narrow, grad)[0]
        theirs = rushlight.autograd.grad(expected, wide, grad.float())[0]
        assert rushlight.equal(ours, theirs.to(ours.dtype))


@pytest.mark.parametrize("to", ["uint8", "int8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_all_numbers_as_integers(dtype, to):
    """By blocks of those that fit into 32 bits, and of others among them."""
    bits = rushlight.arange(-(1 << 15), 1 << 15, dtype=rushlight.int16)
    x = bits.view(getattr(rushlight, dtype))
    x = x[x.float().abs() < 2.0**62]
    exact = x.float().numpy().astype(np.int64)
    for step in (1, 3):
        expected, some = exact[::step], x[::step]
        if to == "bool":
            assert (some.to(rushlight.bool).numpy() == (some.float().numpy() != 0)).all()
        else:
            assert (some.to(getattr(rushlight, to)).numpy() == expected.astype(to)).all()


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("name", ["embedding", "embedding_bag", "max", "by_frequency"])
def test_gradients_of_rows_that_are_looked_up_often_are_rounded_once(dtype, name):
    rushlight.manual_seed(0)
    count, rows, width = 3000, 4, 70
    table = draw(dtype, rows, width).requires_grad_()
    indices = rushlight.randint(rows - 1, (count,))  # none of the last row
    grad = rushlight.rand(count, width).to(table.dtype)
    if name in ("embedding_bag", "max"):
        mode = "max" if name == "max" else "sum"
        F.embedding_bag(indices, table, rushlight.arange(count), mode=mode).backward(grad)
    else:
        F.embedding(indices, table, scale_grad_by_freq=name == "by_frequency").backward(grad)
    exact = rushlight.zeros(rows, width, dtype=rushlight.float64)
    exact.index_add_(0, indices, grad.double())
    if name == "by_frequency":
        exact /= indices.bincount(minlength=rows).clamp(min=1).unsqueeze(1)
    allowed = exact * (UNIT[dtype] + count * 2.0**-24)
    assert ((table.grad.double() - exact).abs() <= allowed).all()
