"""Padding by an image's own elements, beside NumPy's."""

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels
F = rl.nn.functional
NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
CASES = [  # sizes, padding from the last dim on
    ((2, 5), (2, 3)),
    ((2, 3, 40), (20, 39)),
    ((3, 1, 4, 5), (1, 2, 3, 0)),
    ((1, 2, 6, 7), (-2, 3, 1, -1)),
    ((2, 3, 4, 5, 6), (1, 2, 3, 0, 2, 1)),
    ((0, 2, 4), (1, 1)),
    ((1, 1, 40, 30), (15, 9, 12, 20)),
    ((1, 2, 4), (0, 0)),
    ((5, 3, 4, 6), (2, 1, 1, 2)),  # transposed, elements of 5 numbers side by side
]


def places(size, before, after, mode):
    """Which element stands where: negative padding cuts, before anything wraps around."""
    cut = slice(max(-before, 0), size + min(after, 0))
    grow = max(before, 0), max(after, 0)
    if mode == "circular":
        return np.pad(np.arange(size)[cut], grow, "wrap")
    at = np.pad(np.arange(size), grow, NUMPY_MODES[mode])
    return at[max(-before, 0) : len(at) + min(after, 0)]


@pytest.mark.parametrize("mode", NUMPY_MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "complex64", "bool"])
def test_pad(mode, dtype):
    for sizes, pad in CASES:
        x = np.random.default_rng(0).integers(0, 99, sizes).astype(dtype)
        for order in (range(x.ndim), range(x.ndim)[::-1]):
            lies = rl.tensor(np.ascontiguousarray(x.transpose(*order))).permute(*order)
            expected = x
            for i in range(0, len(pad), 2):
                d = x.ndim - 1 - i // 2
                expected = expected.take(places(sizes[d], pad[i], pad[i + 1], mode), d)
            np.testing.assert_array_equal(F.pad(lies, pad, mode).numpy(), expected)


@pytest.mark.parametrize("mode", NUMPY_MODES)
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16])
def test_each_element_gets_the_sum_over_its_places(mode, dtype):
    for sizes, pad in CASES:
        x = rl.zeros(sizes, dtype=dtype, requires_grad=True)
        at = np.arange(x.numel()).reshape(sizes)
        for i in range(0, len(pad), 2):
            d = x.ndim - 1 - i // 2
            at = at.take(places(sizes[d], pad[i], pad[i + 1], mode), d)
        grad = np.random.default_rng(0).integers(-1, 2, at.shape)  # sums of which are exact
        F.pad(x, pad, mode).backward(rl.tensor(grad, dtype=dtype))
        expected = np.bincount(at.ravel(), grad.ravel(), x.numel()).reshape(sizes)
        np.testing.assert_array_equal(x.grad.float().numpy(), expected)


def test_second_derivative_and_infinities():
    x = rl.tensor([[1.0, float("inf"), float("nan"), -0.0]], requires_grad=True)
    y = F.pad(x, (2, 2), "reflect")
    np.testing.assert_array_equal(y.detach().numpy()[0, 4:], [np.nan, -0.0, np.nan, np.inf])
    g = rl.ones_like(y, requires_grad=True)
    (gx,) = rl.autograd.grad(y, x, g, create_graph=True)
    (gg,) = rl.autograd.grad(gx, g, rl.tensor([[1.0, 2.0, 3.0, 4.0]]))
    assert gg.tolist() == [[3, 2, 1, 2, 3, 4, 3, 2]]


def test_sizes_beyond_all_memory():
    for mode in ("replicate", "circular"):
        with pytest.raises(RuntimeError):
            F.pad(rl.zeros(1, 2, 3), (2**60, 2**60), mode)
    assert F.pad(rl.zeros(0, 2, 3), (2**50, 0), "replicate").shape == (0, 2, 3 + 2**50)


@pytest.mark.parametrize(
    "pad", [(-(2**63), -(2**63)), (-(2**63), 2**63 - 1), (2**63 - 1, 1), (2**63 - 1, 2**63 - 1)]
)
def test_sizes_beyond_all_numbers(pad):
    with pytest.raises(RuntimeError, match="negative output size or one too large"):
        F.pad(rl.ones(2, 3), pad)


@pytest.mark.parametrize("name", ["output_size", "kernel_size", "dilation", "padding", "stride"])
@pytest.mark.parametrize("value", [(), (2, 2, 2)])
def test_fold_takes_one_or_two_numbers(name, value):
    arguments = {"output_size": 3, "kernel_size": 2} | {name: value}
    with pytest.raises(RuntimeError, match=f"expected {name} to be one or two numbers"):
        F.fold(rl.ones(1, 4, 4), **arguments)
    if name != "output_size":
        del arguments["output_size"]
        with pytest.raises(RuntimeError, match=f"expected {name} to be one or two numbers"):
            F.unfold(rl.ones(1, 1, 3, 3), **arguments)
