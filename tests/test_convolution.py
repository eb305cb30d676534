"""Float32 convolutions in every geometry that has a kernel of its own, in every layout of memory.

The double convolution, of columns of windows, is the reference; tests of all operations compare
that with torch.
"""

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F

pytestmark = pytest.mark.kernels

# batch, channels, filters, spatial sizes, kernel, stride, padding, dilation, groups
GEOMETRIES = {
    "winograd": (2, 64, 96, (17, 18), 3, 1, 1, 1, 1),
    "winograd, no padding": (3, 96, 64, (15, 14), 3, 1, 0, 1, 1),
    "winograd, wide padding": (2, 96, 64, (13, 16), 3, 1, 2, 1, 1),
    "winograd, many blocks": (1, 64, 64, (61, 57), 3, 1, 1, 1, 1),
    "winograd, few tiles": (1, 64, 64, (5, 5), 3, 1, 1, 1, 1),
    "winograd, few tiles, no padding": (2, 96, 64, (8, 7), 3, 1, 0, 1, 1),
    "winograd, few tiles in parts": (2, 160, 288, (3, 7), 3, 1, 1, 1, 1),
    "no winograd, fewer tiles": (1, 64, 64, (4, 3), 3, 1, 1, 1, 1),
    "odd channels": (2, 33, 65, (14, 14), 3, 1, 1, 1, 1),
    "dilated": (2, 32, 32, (19, 17), 3, 1, 2, 2, 1),
    "pointwise": (3, 32, 64, (11, 9), 1, 1, 0, 1, 1),
    "pointwise, one pixel": (5, 64, 32, (1, 1), 1, 1, 0, 1, 1),
    "pointwise, few pixels": (2, 128, 256, (3, 2), 1, 1, 0, 1, 1),
    "pointwise, large weight": (1, 256, 512, (4, 5), 1, 1, 0, 1, 1),
    "pointwise, many pixels": (2, 24, 96, (23, 22), 1, 1, 0, 1, 1),
    "pointwise, 1-D": (2, 32, 64, (77,), 1, 1, 0, 1, 1),
    "pointwise, 3-D": (2, 32, 64, (3, 5, 7), 1, 1, 0, 1, 1),
    "pointwise, strided": (2, 64, 64, (14, 15), 1, 2, 0, 1, 1),
    "strided": (2, 32, 64, (15, 16), 3, 2, 1, 1, 1),
    "strided, large window": (1, 16, 32, (23, 21), 5, 3, 2, 1, 1),
    "depthwise": (2, 48, 48, (13, 12), 3, 1, 1, 1, 48),
    "depthwise, odd channels": (3, 41, 41, (13, 23), 5, 1, 2, 1, 41),
    "depthwise, strided": (2, 32, 32, (17, 18), 3, 2, 1, 1, 32),
    "depthwise, large stride": (2, 32, 32, (19, 17), 2, 3, 0, 1, 32),
    "depthwise, dilated": (2, 24, 24, (19, 17), 7, 2, 6, 2, 24),
    "depthwise, one image": (1, 48, 48, (31, 9), 3, 1, 0, 1, 48),
    "depthwise, bands": (1, 64, 64, (45, 61), 3, 2, 1, 1, 64),
    "depthwise, no padding": (2, 48, 48, (21, 16), 3, 2, 0, 1, 48),
    "depthwise, 1-D": (2, 32, 32, (301,), 4, 1, 2, 1, 32),
    "grouped": (2, 64, 32, (9, 11), 3, 1, 1, 1, 2),
    "windows": (2, 48, 40, (43, 41), 5, 2, 2, 1, 1),
    "windows, first layer": (2, 3, 64, (81, 73), 7, 2, 3, 1, 1),
    "windows, dilated, odd channels": (2, 67, 97, (29, 31), 3, 2, 3, 2, 1),
    "windows, large stride": (1, 64, 96, (61, 67), 5, 4, 0, 1, 1),
    "windows, one image": (1, 64, 256, (33, 35), 3, 2, 1, 1, 1),
    "windows, 1-D": (4, 40, 72, (1001,), 5, 2, 2, 1, 1),
    "windows, 3-D": (2, 40, 48, (11, 15, 16), 3, 2, 1, 1, 1),
    "windows, small image": (3, 40, 36, (7, 7), 3, 1, 1, 1, 1),
    "windows, many terms": (1, 300, 33, (9, 8), 3, 1, 1, 1, 1),
    "windows, wide padding": (2, 16, 24, (5, 6), 3, 1, 3, 1, 1),
    "few filters": (2, 37, 5, (13, 12), 3, 1, 1, 1, 1),
    "one filter": (2, 64, 1, (9, 7), 5, 2, 2, 1, 1),
    "groups of 2": (2, 38, 38, (9, 11), 3, 1, 1, 1, 19),
    "groups of 4": (3, 68, 68, (13, 12), 3, 2, 1, 1, 17),
    "groups of 8": (2, 40, 40, (9, 8), 3, 1, 2, 2, 5),
    "depthwise, 3-D": (2, 21, 21, (5, 6, 7), 3, 1, 1, 1, 21),
    "one plane": (3, 1, 1, (40, 70), 3, 1, 1, 1, 1),
    "one plane, bands": (1, 1, 1, (611, 70), 11, 1, 5, 1, 1),
    "one plane, pieces of rows": (1, 1, 2, (6, 8213), 4, 1, 3, 1, 1),
    "one plane, no padding": (2, 1, 3, (9, 21), 6, 1, 0, 1, 1),
    "one plane, 1-D": (3, 1, 1, (20011,), 9, 1, 4, 1, 1),
    "few planes": (2, 3, 2, (17, 33), 5, 1, 2, 1, 1),
    "few planes, dilated": (2, 4, 6, (21, 19), 3, 1, 3, 2, 2),
    "planes of their own": (2, 6, 6, (9, 130), 3, 1, 1, 1, 6),
}


def fresh(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operands(geometry, transposed):
    batch, channels, filters, sizes, kernel, stride, padding, dilation, groups = geometry
    if transposed:
        channels, filters = filters, channels
    weight = (channels, filters // groups) if transposed else (filters, channels // groups)
    function = getattr(F, f"conv_transpose{len(sizes)}d" if transposed else f"conv{len(sizes)}d")
    x, w = fresh(1, batch, channels, *sizes), fresh(2, *weight, *[kernel] * len(sizes))
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return x, w, fresh(3, filters), lambda x, w, b: function(x, w, b, **options)


def plain(x):
    return x


def as_channels_last(x):
    order = (0, *range(2, x.ndim), 1)
    return x.permute(order).contiguous().permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def hidden(x):
    """As a convolution leaves its results: channels_last behind plain strides."""
    identity = rl.ones(x.shape[1], 1, *[1] * (x.ndim - 2))
    return getattr(F, f"conv{x.ndim - 2}d")(x, identity, groups=x.shape[1])


def gaps(x):
    return rl.stack([x, x + 1], -1)[..., 0]


LAYOUTS = [plain, as_channels_last, hidden, gaps]


def results(function, x, w, b, grad):
    """The output and the gradients by input, weight and bias."""
    leaves = [t.detach().requires_grad_() for t in (x, w, b)]
    y = function(*leaves)
    return [y, *rl.autograd.grad(y, leaves, grad(y))]


def check_close(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        a, e = a.detach().numpy(), e.detach().numpy()
        assert a.shape == e.shape
        np.testing.assert_allclose(a, e, rtol=0, atol=3e-6 * max(1, np.abs(e).max()))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_float32_agrees_with_double(name, transposed, layout):
    x, w, b, function = operands(GEOMETRIES[name], transposed)
    doubles = [rl.tensor(a).double() for a in (x, w, b)]
    grad = fresh(4, *function(*doubles).shape)
    expected = results(function, *doubles, lambda y: rl.tensor(grad).double())
    for weight_layout in (plain, as_channels_last):
        x_, w_ = layout(rl.tensor(x)), weight_layout(rl.tensor(w))
        actual = results(function, x_, w_, rl.tensor(b), lambda y: layout(rl.tensor(grad)))
        check_close(actual, expected)


@pytest.mark.parametrize(
    "name", ["winograd", "pointwise", "pointwise, large weight", "strided", "depthwise"]
)
@pytest.mark.parametrize(("layout", "other"), [(plain, hidden), (hidden, plain), (gaps, hidden)])
def test_input_and_gradient_in_different_layouts(name, layout, other):
    x, w, b, function = operands(GEOMETRIES[name], False)
    doubles = [rl.tensor(a).double() for a in (x, w, b)]
    grad = fresh(4, *function(*doubles).shape)
    expected = results(function, *doubles, lambda y: rl.tensor(grad).double())
    given = layout(rl.tensor(x)), rl.tensor(w), rl.tensor(b)
    check_close(results(function, *given, lambda y: other(rl.tensor(grad))), expected)


@pytest.mark.parametrize("name", ["winograd", "pointwise", "strided", "depthwise", "windows"])
def test_expanded_operands(name):
    x, w, b, function = operands(GEOMETRIES[name], False)
    x, w = rl.tensor(x[:1]).expand(x.shape), rl.tensor(w[:, :1]).expand(w.shape)
    expected = results(function, x.double(), w.double(), rl.tensor(b).double(), rl.ones_like)
    actual = results(function, x, w, rl.tensor(b), lambda y: rl.ones(()).expand(y.shape))
    check_close(actual, expected)


@pytest.mark.parametrize("name", ["winograd", "pointwise", "strided", "depthwise"])
def test_empty_batch(name):
    x, w, b, function = operands(GEOMETRIES[name], False)
    y, *grads = results(function, *map(rl.tensor, (x[:0], w, b)), rl.ones_like)
    assert y.shape[0] == 0 and grads[0].shape[0] == 0
    assert all(float(g.abs().sum()) == 0 for g in grads)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("operand", ["input", "weight", "gradient"])
@pytest.mark.parametrize(
    "name", ["winograd, no padding", "winograd, few tiles, no padding", "depthwise, no padding"]
)
def test_what_is_not_finite_stays_where_it_belongs(name, operand, value):
    x, w, b, function = operands(GEOMETRIES[name], False)
    grad = fresh(4, *function(*map(rl.tensor, (x, w, b))).shape)
    changed = {"input": x, "weight": w, "gradient": grad}[operand]
    changed[1, min(2, changed.shape[1] - 1), 2, 1] = value
    actual = results(function, *map(rl.tensor, (x, w, b)), lambda y: rl.tensor(grad))
    doubles = [rl.tensor(a).double() for a in (x, w, b)]
    expected = results(function, *doubles, lambda y: rl.tensor(grad).double())
    for a, e in zip(actual, expected, strict=True):
        near = np.abs(e.detach().numpy()) < 1e30
        assert np.isfinite(a.detach().numpy()[near]).all()
        assert (np.abs(a.detach().numpy()[~near]) < 1e30).sum() == 0


@pytest.mark.parametrize("name", ["windows", "windows, small image", "groups of 4"])
def test_an_infinite_tap_does_not_meet_the_padding(name):
    x, w, b, function = operands(GEOMETRIES[name], False)
    w[3, 1, 0, 0] = np.inf
    y = function(*map(rl.tensor, (x, w, b))).numpy()
    # It sees nothing of an image in the first row and column of results.
    assert np.isfinite(y[:, 3, 0]).all() and np.isfinite(y[:, 3, :, 0]).all()
    assert np.isinf(y[:, 3, 1:, 1:]).all()
    assert np.isfinite(np.delete(y, 3, 1)).all()


@pytest.mark.parametrize(
    "name",
    [
        "winograd, many blocks",
        "winograd, few tiles in parts",
        "pointwise, many pixels",
        "strided",
        "depthwise, bands",
        "windows",
        "windows, one image",
        "windows, 3-D",
        "windows, many terms",
        "few filters",
        "groups of 4",
    ],
)
def test_threads_do_not_change_results(name):
    x, w, b, function = operands(GEOMETRIES[name], False)
    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            found.append(results(function, *map(rl.tensor, (x, w, b)), rl.ones_like))
    finally:
        rl.set_num_threads(before)
    for other in found[1:]:
        assert all(rl.equal(a, b) for a, b in zip(found[0], other, strict=True))


def strides_of(library, dims, kernel, last, transposed, groups, dtype):
    """Of output and gradients, where input or weight (or both, or none) lie channels_last."""
    channels, filters = 8, 6 if groups == 1 else 8
    layout = library.channels_last if dims == 2 else library.channels_last_3d
    dtype = getattr(library, dtype)
    x = library.ones(2, channels, *[5] * dims, dtype=dtype)
    weight = (channels, filters // groups) if transposed else (filters, channels // groups)
    w = library.ones(*weight, *[kernel] * dims, dtype=dtype)
    x = x.contiguous(memory_format=layout) if "input" in last else x
    w = w.contiguous(memory_format=layout) if "weight" in last else w
    x.requires_grad_()
    w.requires_grad_()
    convolve = library.nn.functional
    convolve = getattr(convolve, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    y = convolve(x, w, padding=kernel // 2, groups=groups)
    grads = library.autograd.grad(y, [x, w], library.ones_like(y), retain_graph=True)
    y.sum().backward()
    # Dims of size 1 may have any stride.
    return [
        [s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] for t in (y, *grads, w.grad)
    ]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("last", ["none", "input", "weight", "input and weight"])
@pytest.mark.parametrize(
    ("dims", "kernel", "transposed", "groups"),
    [(2, 3, False, 1), (2, 1, False, 1), (3, 3, False, 1), (2, 3, True, 1), (3, 3, True, 1)],
)
def test_strides_are_those_of_torch(dims, kernel, transposed, groups, last, dtype):
    torch = pytest.importorskip("torch")
    case = dims, kernel, last, transposed, groups, dtype
    if dims == 3 and dtype == "float64":
        pytest.skip("torch has no channels_last_3d kernels of double")
    assert strides_of(rl, *case) == strides_of(torch, *case)
