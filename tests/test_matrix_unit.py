"""Products and convolutions that the processor's matrix unit computes where there is one (AMX):
floats as sums of bfloat16, what those do not say, bytes, and images.

Everything here holds on any instruction set; `--isa avx512` tests it without the unit.
"""

import itertools

import numpy as np
import pytest

import rushlight

pytestmark = pytest.mark.kernels

F = rushlight.nn.functional
# Edges of tiles, of panels and of blocks of each dimension; several blocks of terms and columns.
SIZES = [(128, 160, 200), (141, 65, 171), (97, 1100, 290), (300, 2300, 96), (130, 1030, 1500),
         (513, 64, 1025)]  # fmt: skip


def draw(*shape, layout="rows", dtype=np.float32, scale=1.0):
    x = (np.random.standard_normal(shape) * scale).astype(dtype)
    if layout == "columns":
        return np.ascontiguousarray(x.T).T
    if layout == "steps":
        wide = np.zeros((2 * shape[0], 3 * shape[1]), dtype)
        wide[::2, 1::3] = x
        return wide[::2, 1::3]
    return x


def check(found, a, b, more=0.0, unit=2.0**-24):
    """Each element beside the exact sum: off by the last bit of it, and the sum's own errors."""
    exact = a.astype(np.float64) @ b.astype(np.float64) + more
    magnitude = abs(a.astype(np.float64)) @ abs(b.astype(np.float64)) + abs(more)
    error = abs(found.double().numpy() - exact)
    assert (error <= abs(exact) * 2 * unit + magnitude * 2.0**-21).all(), (error / magnitude).max()


def check_errors(pairs, most):
    """Beside the exact tensors: the root of the mean square error, by that of the values."""
    for found, exact in pairs:
        found, exact = found.detach().double().numpy(), exact.detach().numpy()
        assert np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean()) < most


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_floats_of_every_layout(size):
    m, k, n = size
    for left, right in itertools.product(("rows", "columns", "steps"), repeat=2):
        a, b = draw(m, k, layout=left), draw(k, n, layout=right)
        check(rushlight.from_numpy(a) @ rushlight.from_numpy(b), a, b)


def test_floats_are_as_exact_as_by_multiply_and_add():
    for n in (256, 1024):
        a, b = draw(n, n), draw(n, n)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        found = (rushlight.from_numpy(a) @ rushlight.from_numpy(b)).double().numpy()
        error = np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean())
        assert error < 5e-7


def test_what_parts_do_not_say():
    """Lines of tiny and of huge numbers, and such that are none, among others."""
    a, b = draw(200, 300), draw(300, 180)
    a[3] *= np.float32(1e-20)
    a[70] *= np.float32(1e20)
    b[:, 5] *= np.float32(1e-10)
    b[:, 100] *= np.float32(1e14)
    a[199, 299] = np.float32(3e22)
    check(rushlight.from_numpy(a) @ rushlight.from_numpy(b), a, b)
    a[20, 7], a[21, 8], b[9, 33], b[10, 34] = np.inf, np.nan, -np.inf, np.nan
    found = (rushlight.from_numpy(a) @ rushlight.from_numpy(b)).numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(found[infinite], expected[infinite])
    finite = np.isfinite(expected)
    magnitude = np.nan_to_num(abs(a), posinf=0).astype(np.float64) @ np.nan_to_num(abs(b), posinf=0)
    error = abs(found[finite] - expected[finite])
    assert (error <= magnitude[finite] * 2.0**-20).all()
    # A line of zeros is split like any other.
    a, b = draw(128, 128), draw(128, 256)
    a[5], b[:, 9] = 0, 0
    found = rushlight.from_numpy(a) @ rushlight.from_numpy(b)
    check(found, a, b)
    assert not found[5].any() and not found[:, 9].any()


@pytest.mark.parametrize("size", SIZES[1:5], ids=lambda size: "x".join(map(str, size)))
def test_what_is_added_and_where_results_go(size):
    m, k, n = size
    a, b, c = draw(m, k), draw(k, n), draw(m, n)
    x, y, z = map(rushlight.from_numpy, (a, b, c))
    check(rushlight.addmm(z, x, y, beta=0.5, alpha=2), 2 * a, b, 0.5 * c.astype(np.float64))
    check(rushlight.addmm(z[0], x, y), a, b, c[0].astype(np.float64))
    out = rushlight.full((n, m), float("nan")).t()
    rushlight.matmul(x, y, out=out)
    check(out, a, b)
    there = z.clone()
    there.addmm_(x, y)
    check(there, a, b, c.astype(np.float64))
    weight, bias = y.t().contiguous(), rushlight.randn(n)
    plain = F.linear(x, weight, bias)
    check(plain, a, b, bias.double().numpy())
    assert rushlight.equal(rushlight.nn.Sequential(Fixed(weight, bias), rushlight.nn.ReLU())(x),
                           plain.relu())  # fmt: skip


class Fixed(rushlight.nn.Linear):
    def __init__(self, weight, bias):
        super().__init__(weight.shape[1], weight.shape[0])
        self.weight, self.bias = map(rushlight.nn.Parameter, (weight, bias))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8"])
def test_the_same_bits_by_any_number_of_threads(dtype):
    kind = getattr(rushlight, dtype)
    for m, k, n in [(300, 2300, 500), (64, 1100, 1500), (1000, 300, 130), (250, 200, 700)]:
        a, b = (rushlight.randn(*s) * 50 for s in ((m, k), (k, n)))
        a[40] *= 1e-25 if dtype == "float32" else 1
        a, b = a.to(kind), b.to(kind)
        threads, results = rushlight.get_num_threads(), []
        try:
            for count in (1, 2, 5):
                rushlight.set_num_threads(count)
                results.append(rushlight._int_mm(a, b) if dtype == "int8" else a @ b)
        finally:
            rushlight.set_num_threads(threads)
        assert all(rushlight.equal(results[0], r) for r in results[1:])


@pytest.mark.parametrize("size", [(5, 64, 20), (17, 33, 40), (64, 1000, 70), (100, 5000, 130)],
                         ids=lambda size: "x".join(map(str, size)))  # fmt: skip
def test_bytes(size):
    m, k, n = size
    for left, right in itertools.product((np.int8, np.uint8), repeat=2):
        for rows, columns in itertools.product(("rows", "columns", "steps"), repeat=2):
            low, high = np.iinfo(left).min, np.iinfo(left).max + 1
            a = np.random.randint(low, high, (m, k)).astype(left)
            low, high = np.iinfo(right).min, np.iinfo(right).max + 1
            b = np.random.randint(low, high, (k, n)).astype(right)
            x, y = (lay(rushlight.from_numpy(t), how) for t, how in ((a, rows), (b, columns)))
            expected = a.astype(np.int64) @ b.astype(np.int64)
            if left == right:
                wrapped = expected.astype(left)  # the low byte
                np.testing.assert_array_equal((x @ y).numpy(), wrapped)
            if right == np.int8 and left == np.int8 and m > 16 and k % 8 == 0 and n % 8 == 0:
                np.testing.assert_array_equal(rushlight._int_mm(x, y).numpy(), expected)


def lay(t, how):
    if how == "columns":
        return t.t().contiguous().t()
    if how == "steps":
        wide = rushlight.zeros(2 * t.shape[0], 3 * t.shape[1], dtype=t.dtype)
        wide[::2, 1::3] = t
        return wide[::2, 1::3]
    return t


# (batch, channels, size, filters, kernel, convolution's arguments)
IMAGES = [
    (2, 64, (13, 15), 96, (1, 1), {}),
    (3, 40, (9, 7), 33, (3, 3), {"padding": 1}),
    (2, 32, (17, 12), 70, (3, 3), {"stride": 2, "padding": 1}),
    (2, 3, (33, 29), 64, (7, 7), {"stride": 2, "padding": 3}),
    (2, 64, (11, 9), 64, (3, 3), {"dilation": 2, "padding": 2}),
    (1, 64, (8, 8), 96, (3, 5), {"groups": 2, "padding": (0, 2)}),
    (2, 33, (31,), 35, (5,), {"padding": 2}),
    (1, 24, (5, 6, 7), 40, (3, 3, 3), {"padding": 1}),
    (2, 512, (5, 5), 80, (3, 3), {"padding": 1}),
    (2, 96, (6, 6), 200, (1, 1), {"stride": 2}),
]


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels_last"])
@pytest.mark.parametrize("case", IMAGES, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
def test_convolutions_of_bfloat16(case, last, transposed):
    """Beside those of the same numbers as float64: each result is rounded once."""
    batch, channels, size, filters, kernel, arguments = case
    arguments = dict(arguments)
    groups = arguments.get("groups", 1)
    dims = len(size)
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    shape = (channels, filters // groups) if transposed else (filters, channels // groups)
    x = rushlight.randn(batch, channels, *size).bfloat16()
    w = (rushlight.randn(*shape, *kernel) / 8).bfloat16()
    bias = rushlight.randn(filters).bfloat16()
    if last and dims == 2:
        x, w = (t.contiguous(memory_format=rushlight.channels_last) for t in (x, w))
    convolve = getattr(F, name)
    narrow = [t.clone().requires_grad_() for t in (x, w, bias)]
    wide = [t.double().requires_grad_() for t in (x, w, bias)]
    sizes = [t.detach().double().abs() for t in (x, w, bias)]
    found, exact = convolve(*narrow, **arguments), convolve(*wide, **arguments)
    magnitude = convolve(*sizes, **arguments)
    near(found, exact, magnitude)
    grad = rushlight.randn(*found.shape).bfloat16()
    found.backward(grad)
    exact.backward(grad.double())
    bound = [t.requires_grad_() for t in sizes]
    convolve(*bound, **arguments).backward(grad.double().abs())
    for a, b, c in zip(narrow, wide, bound, strict=True):
        near(a.grad, b.grad, c.grad)


def near(found, exact, magnitude):
    found, exact, magnitude = (t.detach().double().numpy() for t in (found, exact, magnitude))
    error = abs(found - exact)
    assert (error <= abs(exact) * 2.0**-8 + magnitude * 2.0**-19).all(), (error / magnitude).max()


def test_an_infinite_tap_does_not_meet_the_zeros_around():
    for kernel, padding in ((3, 1), (1, 0)):
        x = rushlight.ones(1, 64, 6, 6).bfloat16()
        w = rushlight.ones(96, 64, kernel, kernel).bfloat16()
        w[7, 5, 0, 0] = float("inf")
        y = F.conv2d(x, w, padding=padding)
        expected = F.conv2d(x.float(), w.float(), padding=padding)
        assert rushlight.equal(y.float().isinf(), expected.isinf())
        assert not y.isnan().any()
        x[0, 3, 2, 2] = float("nan")
        y, expected = (F.conv2d(x.to(d), w.to(d), padding=padding)
                       for d in (rushlight.bfloat16, rushlight.float32))  # fmt: skip
        assert rushlight.equal(y.isnan(), expected.isnan())


@pytest.mark.parametrize("size", [(2, 256, 40, 40), (2, 256, 9, 9), (1, 64, 70, 70)], ids=str)
def test_3x3_convolutions_of_many_channels(size):
    x = rushlight.randn(*size).requires_grad_()
    w = (rushlight.randn(size[1], size[1], 3, 3) / 50).requires_grad_()
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    y, exact = F.conv2d(x, w, padding=1), F.conv2d(*wide, padding=1)
    grad = rushlight.randn(*y.shape)
    y.backward(grad)
    exact.backward(grad.double())
    check_errors([(y, exact), (x.grad, wide[0].grad), (w.grad, wide[1].grad)], 6e-7)


# Images, filters, stride, padding, dilation, groups: partial tiles, steps and panels, two blocks of
# terms, pixels on the border; the 3x3 ones of stride 1 have no Winograd form.
WINDOWS = [
    ((2, 64, 31, 33), (96, 64, 3, 3), 2, 1, 1, 1),
    ((3, 32, 30, 30), (70, 32, 5, 5), 1, 2, 1, 1),
    ((2, 256, 34, 34), (80, 256, 3, 3), 1, 2, 2, 1),
    ((2, 128, 40, 28), (192, 64, 3, 3), 2, 0, 1, 2),
    ((2, 96, 1200), (100, 96, 7), 3, 3, 1, 1),
    ((1, 64, 9, 12, 12), (72, 64, 3, 3, 3), 1, 1, 1, 1),
    ((9, 64, 14, 7), (48, 64, 3, 3), 1, 1, (1, 3), 1),  # lines shorter than a tile
    ((5, 64, 180, 1), (40, 64, 5, 1), 1, (2, 0), 1, 1),  # of one pixel
    ((1, 32, 700, 18), (40, 32, 3, 3), (1, 6), 1, 1, 1),  # further apart than a tile's rows may be
    ((2, 64, 30, 31), (64, 64, 3, 3), 4, 0, 1, 1),
]


@pytest.mark.parametrize("case", WINDOWS, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize("values", ["usual", "tiny and huge"])
def test_convolutions_of_floats_by_windows(case, transposed, values):
    size, filters, stride, padding, dilation, groups = case
    dims = len(size) - 2
    w = rushlight.randn(*filters)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    kind, outputs = "conv", filters[0]
    if transposed:
        size = getattr(F, f"conv{dims}d")(rushlight.empty(size), w, **options).shape
        kind, outputs = "conv_transpose", filters[1] * groups
    x, bias = rushlight.randn(size), rushlight.randn(outputs)
    if values != "usual":
        x[0, 3, 2:4] *= 1e25
        x[-1, :, -3:] *= 1e-25
        w[5] *= 1e-25
        w[37] *= 1e11
    operation = getattr(F, f"{kind}{dims}d")
    found = operation(x, w, bias, **options)
    exact = operation(x.double(), w.double(), bias.double(), **options)
    magnitude = operation(x.double().abs(), w.double().abs(), bias.double().abs(), **options)
    error = (found.double() - exact).abs()
    assert bool((error <= exact.abs() * 2.0**-22 + magnitude * 2.0**-20 + 1e-37).all())


@pytest.mark.parametrize("stride", [1, 2])
def test_1x1_convolutions_of_what_batch_norm_has_not_written(stride):
    """The normalized images are computed when the convolution, or its gradient, reads them."""
    x = (rushlight.randn(2, 128, 18, 18) + 1).requires_grad_()
    w = (rushlight.randn(192, 128, 1, 1) / 10).requires_grad_()
    wide = [t.detach().double().requires_grad_() for t in (x, w)]

    def network(x, w):
        scale = rushlight.linspace(0.5, 2, 128, dtype=x.dtype)
        scaled = F.conv2d(x, scale.diag()[:, :, None, None])
        y = F.batch_norm(scaled, None, None, scale, -scale, True)
        return F.conv2d(y.relu(), w, stride=stride)

    y, exact = network(x, w), network(*wide)
    grad = rushlight.randn(*y.shape)
    y.backward(grad)
    exact.backward(grad.double())
    check_errors([(y, exact), (x.grad, wide[0].grad), (w.grad, wide[1].grad)], 1.5e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("layout", ["plain", "channels_last", "steps"])
def test_batch_norm_of_16_bit_floats(dtype, layout):
    kind = getattr(rushlight, dtype)
    for shape in [(4, 33, 9, 7), (2, 64, 40, 40), (3, 5, 4, 4), (300, 700, 1, 1)]:
        x = rushlight.randn(*shape).to(kind)
        if layout == "channels_last":
            x = x.contiguous(memory_format=rushlight.channels_last)
        elif layout == "steps":
            x = rushlight.stack([x, x], -1)[..., 0]
        weight, bias, mean, var = (rushlight.rand(shape[1]) + 0.5 for _ in range(4))
        for training in (True, False):
            narrow, wide = (t.detach().requires_grad_() for t in (x, x.double()))
            of = [t.double() for t in (mean, var)], [t.double() for t in (weight, bias)]
            y = F.batch_norm(narrow, mean.clone(), var.clone(), weight, bias, training)
            exact = F.batch_norm(wide, *of[0], *of[1], training)
            grad = rushlight.randn(*shape).to(kind)
            y.backward(grad)
            exact.backward(grad.double())
            tolerance = 2.0**-7 if dtype == "bfloat16" else 2.0**-9
            for a, b in ((y, exact), (narrow.grad, wide.grad)):
                assert a.dtype == kind
                assert bool(((a.double() - b).abs() <= tolerance * (b.abs() + 0.25)).all())


def test_less_exact_products():
    """Where there is no unit, they stay exact."""
    a, b = draw(200, 700), draw(700, 300)
    a[3], a[40, 5], b[9, 100] = a[3] * np.float32(1e-30), np.inf, np.nan
    x, y = rushlight.from_numpy(a), rushlight.from_numpy(b)
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64)
    finite = np.isfinite(exact)
    magnitude = np.nan_to_num(abs(a), posinf=0).astype(np.float64) @ np.nan_to_num(abs(b))
    try:
        for precision, unit in (("highest", 2.0**-21), ("high", 2.0**-21), ("medium", 2.0**-7)):
            rushlight.set_float32_matmul_precision(precision)
            assert rushlight.get_float32_matmul_precision() == precision
            found = (x @ y).numpy()
            error = abs(found[finite] - exact[finite])
            assert (error <= magnitude[finite] * unit).all()
            np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
    finally:
        rushlight.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="'highest', 'high' or 'medium', got 'low'"):
        rushlight.set_float32_matmul_precision("low")


ATTENTION = [  # (samples, heads, shared heads, queries, keys, width, width of values)
    (1, 1, 1, 16, 16, 32, 32), (2, 4, 2, 70, 130, 64, 64), (1, 2, 2, 100, 700, 64, 40),
    (2, 2, 1, 33, 65, 80, 96), (1, 1, 1, 200, 1100, 16, 128), (1, 2, 2, 17, 5, 8, 8),
    (1, 2, 1, 5, 40, 24, 24),
]  # fmt: skip


def attention_options(kind, queries, keys):
    if kind == "mask":
        return {"attn_mask": rushlight.randn(queries, keys)}
    if kind == "bool":
        allowed = rushlight.rand(queries, keys) > 0.3
        allowed[0] = False  # a query that may attend to nothing
        return {"attn_mask": allowed}
    return {"plain": {}, "causal": {"is_causal": True}, "scale": {"scale": -0.3}}[kind]


@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "bool", "scale"])
@pytest.mark.parametrize("size", ATTENTION, ids=lambda size: "x".join(map(str, size)))
def test_attention_of_bfloat16(size, kind):
    """Values and gradients beside float64, heads that lie as models cut them too."""
    samples, heads, shared, queries, keys, width, value_width = size
    rushlight.manual_seed(0)
    operands = [
        rushlight.randn(samples, queries, heads, width).transpose(1, 2),
        rushlight.randn(samples, shared, keys, width),
        rushlight.randn(samples, shared, value_width, keys).mT,
    ]
    options = {"enable_gqa": heads != shared, **attention_options(kind, queries, keys)}
    gradient = rushlight.randn(samples, heads, queries, value_width).bfloat16()
    found = []
    for dtype in (rushlight.bfloat16, rushlight.float64):
        own = [x.bfloat16().to(dtype).requires_grad_() for x in operands]
        if kind == "mask":
            options["attn_mask"] = options["attn_mask"].to(
                rushlight.float32 if dtype == rushlight.bfloat16 else dtype
            )
        out = F.scaled_dot_product_attention(*own, **options)
        found.append([out, *rushlight.autograd.grad(out, own, gradient.to(dtype))])
    for got, exact in zip(*found):
        assert got.dtype == rushlight.bfloat16 and not got.isnan().any()
        assert ((got.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item() < 6e-3


@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "bool", "dropout", "layout"])
@pytest.mark.parametrize("size", [(64, 64, 48, 48), (130, 700, 72, 50), (65, 1030, 64, 128)],
                         ids=lambda size: "x".join(map(str, size)))  # fmt: skip
def test_attention_of_floats(size, kind):
    """As exact as by multiply and add: the parts of a float say all of it."""
    queries, keys, width, value_width = size
    shapes = ((2, 4, queries, width), (2, 2, keys, width), (2, 2, keys, value_width))
    if kind == "layout":
        wide = [rushlight.randn(n, rows, heads, 2 * columns) for n, heads, rows, columns in shapes]
        inputs = [t[..., ::2].transpose(1, 2).detach().requires_grad_() for t in wide]
    else:
        inputs = [rushlight.randn(shape).requires_grad_() for shape in shapes]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    options = {"enable_gqa": True, "is_causal": kind == "causal"}
    mask = None
    if kind == "mask":
        mask = rushlight.randn(queries, keys)
    elif kind == "bool":
        mask = rushlight.rand(2, 1, queries, keys) > 0.3
        mask[0, 0, 5] = False  # a query that attends to nothing
    elif kind == "dropout":
        options["dropout_p"] = 0.25
    rushlight.manual_seed(3)
    y = F.scaled_dot_product_attention(*inputs, mask, **options)
    rushlight.manual_seed(3)
    z = F.scaled_dot_product_attention(*exact, mask.double() if kind == "mask" else mask, **options)
    grad = rushlight.randn(y.shape)
    y.backward(grad)
    z.backward(grad.double())
    gradients = [(t.grad, e.grad) for t, e in zip(inputs, exact, strict=True)]
    check_errors([(y, z), *gradients], 7e-7)


@pytest.mark.parametrize("factor", [1e-25, 1e20, float("inf"), float("nan")])
@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_attention_of_floats_of_which_parts_do_not_say_all(which, factor):
    values = [rushlight.randn(1, 2, 96, 64) for _ in range(4)]
    values[which][0, 1, 17] *= factor
    results = []
    for dtype in (rushlight.float32, rushlight.float64):
        inputs = [t.to(dtype, copy=True).requires_grad_() for t in values[:3]]
        y = F.scaled_dot_product_attention(*inputs)
        y.backward(values[3].to(dtype))
        results.append([y, *(t.grad for t in inputs)])
    for a, b in zip(*results, strict=True):
        a, b = a.detach().double(), b.detach()
        scale = b[b.isfinite()].abs().max() if b.isfinite().any() else 1
        # What is infinite in one may be large in the other; NaN is where it is.
        assert rushlight.equal(a.isnan(), b.float().isnan())
        near = b.isfinite() & a.isfinite()
        assert bool(((a - b).abs()[near] <= 1e-5 * scale + 1e-5 * b.abs()[near]).all())


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_bfloat16_where_later_keys_score_higher_or_lower(causal):
    """What blocks of keys gave is corrected, or not, by those that follow."""
    rushlight.manual_seed(0)
    operands = [rushlight.randn(1, 1, 1200, 32) for _ in range(3)]
    for factor in (rushlight.linspace(0, 20, 1200), rushlight.linspace(20, 0, 1200)):
        own = [x.bfloat16() for x in (operands[0], operands[1] * factor[:, None], operands[2])]
        found, exact = [], []
        for dtype, made in ((rushlight.bfloat16, found), (rushlight.float64, exact)):
            each = [x.to(dtype).requires_grad_() for x in own]
            out = F.scaled_dot_product_attention(*each, is_causal=causal)
            made += [out, *rushlight.autograd.grad(out, each, operands[0].bfloat16().to(dtype))]
        for got, wanted in zip(found, exact):
            assert ((got.double() - wanted).norm() / wanted.norm()).item() < 1e-2


def test_attention_of_bfloat16_with_dropout():
    """Its gradients are those of what it kept, which other ops, with gradients, find too."""
    rushlight.manual_seed(0)
    operands = [rushlight.randn(1, 2, 70, 32).bfloat16().requires_grad_() for _ in range(3)]
    gradient, found = rushlight.randn(1, 2, 70, 32).bfloat16(), []
    for create_graph in (False, True):
        rushlight.manual_seed(3)
        out = F.scaled_dot_product_attention(*operands, dropout_p=0.3, is_causal=True)
        grads = rushlight.autograd.grad(out, operands, gradient, create_graph=create_graph)
        found.append([out, *grads])
    assert (found[0][0] == found[1][0]).all()
    for got, other in zip(*found):
        assert ((got - other).float().norm() / other.float().norm()).item() < 1e-2


def test_attention_of_bfloat16_meets_what_is_no_number():
    for query in (16, 40):
        q, k, v = (rushlight.randn(1, 1, query, 32).bfloat16() for _ in range(3))
        k[0, 0, 3] = float("nan")
        assert F.scaled_dot_product_attention(q, k, v).isnan().all()
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).isnan().all(-1)
        assert seen[0, 0].tolist() == [i >= 3 for i in range(query)]
        k.fill_(float("nan"))
        assert F.scaled_dot_product_attention(q, k, v).isnan().all()


def test_attention_of_bfloat16_by_any_number_of_threads():
    q, k, v = (rushlight.randn(3, 2, 150, 48).bfloat16().requires_grad_() for _ in range(3))
    threads, found = rushlight.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            rushlight.set_num_threads(count)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            found.append([out, *rushlight.autograd.grad(out.float().square().sum(), (q, k, v))])
    finally:
        rushlight.set_num_threads(threads)
    for other in found[1:]:
        assert all(rushlight.equal(a, b) for a, b in zip(found[0], other))
