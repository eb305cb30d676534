"""Layer, RMS and group norm: rows of every width, all gradients in one pass."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F

pytestmark = pytest.mark.kernels

NORMS = {
    "layer": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rms": lambda x, w, b: F.rms_norm(x, x.shape[-1:], w, 1e-5),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
}
# A row of 1, of less than a vector, of one and some elements, of vectors and a rest, of many.
WIDTHS = [1, 3, 17, 64, 1000]


def normalised(kind, x):
    """(x - mean) / std, and the dims that weight and bias do not have."""
    if kind == "group":
        rows = x.reshape(x.shape[0], 2, -1)
        rows = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
        return rows.reshape(x.shape), (0, *range(2, x.ndim))
    mean = 0 if kind == "rms" else x.mean(-1, keepdims=True)
    square = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(square + 1e-5), tuple(range(x.ndim - 1))


def operands(kind, width, dtype=rl.float64, strided=False):
    random = np.random.default_rng(0)
    sizes = (3, 4, width) if kind == "group" else (37, 2, width)
    x = rl.from_numpy(random.standard_normal(sizes)).to(dtype)
    if strided:
        x = x.transpose(0, 2).repeat_interleave(2, 0)[::2].transpose(0, 2)
    channels = 4 if kind == "group" else width
    w, b = (rl.from_numpy(random.standard_normal(channels)).to(dtype) for _ in range(2))
    return [t.requires_grad_() for t in ([x, w] if kind == "rms" else [x, w, b])]


def run(kind, tensors):
    return NORMS[kind](*tensors, *[None] * (3 - len(tensors)))


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", NORMS)
def test_values_and_gradients(kind, width, strided):
    tensors = operands(kind, width, strided=strided)
    out = run(kind, tensors)
    rows, others = normalised(kind, tensors[0].detach().numpy())
    w, b = (t.detach().numpy() for t in (tensors[1:] + [rl.zeros(1)])[:2])
    along = (slice(None), None) if kind == "group" else ()
    np.testing.assert_allclose(out.detach().numpy(), rows * w[along] + b[along], 1e-9, 1e-9)

    grad = rl.cos(rl.arange(out.numel(), dtype=rl.float64)).view(out.shape)
    fused = rl.autograd.grad(out, tensors, grad, retain_graph=True)
    composed = rl.autograd.grad(run(kind, tensors), tensors, grad, create_graph=True)
    for ours, ops in zip(fused, composed, strict=True):
        rl.testing.assert_close(ours, ops.detach(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fused[1].numpy(), (grad.numpy() * rows).sum(others), 1e-9, 1e-9)
    # one gradient alone has the bits it has among the others
    for tensor, ours in zip(tensors, fused, strict=True):
        assert rl.equal(rl.autograd.grad(out, tensor, grad, retain_graph=True)[0], ours)


@pytest.mark.parametrize("kind", NORMS)
def test_no_parameters(kind):
    x, *_ = operands(kind, 17)
    out = NORMS[kind](x, None, None)
    ones = NORMS[kind](x, *[rl.full((4 if kind == "group" else 17,), v).double() for v in (1, 0)])
    assert rl.equal(out, ones)
    assert rl.equal(*(rl.autograd.grad(y.sin().sum(), x)[0] for y in (out, ones)))


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
@pytest.mark.parametrize("kind", NORMS)
def test_half_precision(kind, dtype):
    halves = operands(kind, 65, dtype)
    floats = [t.detach().float().requires_grad_() for t in halves]
    out, wide = run(kind, halves), run(kind, floats)
    step = rl.finfo(dtype).eps
    rl.testing.assert_close(out.float(), wide, rtol=step, atol=step)
    grads = (rl.autograd.grad(y, t, rl.ones_like(y)) for y, t in ((out, halves), (wide, floats)))
    for half, full in zip(*grads, strict=True):
        assert half.dtype == dtype
        rl.testing.assert_close(half.float(), full, rtol=2 * step, atol=2 * step)


@pytest.mark.parametrize("kind", NORMS)
def test_the_number_of_threads_changes_no_bit(kind):
    x, *parameters = operands(kind, 600, rl.float32)
    x = x.detach().repeat(40, 1, 1).requires_grad_()
    tensors, before, results = [x, *parameters], rl.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            out = run(kind, tensors)
            results.append((out, *rl.autograd.grad(out, tensors, rl.sin(out))))
    finally:
        rl.set_num_threads(before)
    for other in results[1:]:
        assert all(map(rl.equal, results[0], other))


@pytest.mark.parametrize("kind", NORMS)
def test_no_rows_and_a_row_with_nan(kind):
    x, *parameters = operands(kind, 17)
    nothing = x.detach()[:0].requires_grad_()
    grads = rl.autograd.grad(run(kind, [nothing, *parameters]).sum(), [nothing, *parameters])
    assert grads[0].shape == nothing.shape
    assert not any(g.any() for g in grads[1:])
    bad = x.detach().clone()
    bad[1, 0, 3] = float("nan")
    out = run(kind, [bad, *parameters])
    assert out[1, 0].isnan().all()
    assert not out[[0, 2]].isnan().any()


@pytest.mark.parametrize("kind", NORMS)
def test_second_gradients_of_no_elements(kind):
    x = rl.zeros(0, 4, dtype=rl.float64, requires_grad=True)
    (grad,) = rl.autograd.grad(run(kind, [x]).sum(), x, create_graph=True)
    assert rl.autograd.grad(grad.sum(), x, allow_unused=True)[0].shape == (0, 4)


@pytest.mark.parametrize("dtype", [rl.float64, rl.float32, rl.bfloat16, rl.float16])
@pytest.mark.parametrize("order", ["planes", "channels last", "columns"])
@pytest.mark.parametrize(
    "sizes", [(31, 3), (33, 3), (517, 10), (70, 17), (40, 5, 7), (37, 3, 60), (3, 2, 2500)]
)
def test_batch_norm(sizes, order, dtype):
    """Narrow rows, which are taken some at a time, and short planes, with some left over."""
    random = np.random.default_rng(2)
    channels, others = sizes[1], (0, *range(2, len(sizes)))
    x, grad = (rl.from_numpy(random.standard_normal(sizes) + m).to(dtype) for m in (3, 0))
    w, b = (rl.from_numpy(random.standard_normal(channels)).to(dtype) for _ in range(2))
    if order == "columns":
        x, grad = (t.transpose(0, 1).contiguous().transpose(0, 1) for t in (x, grad))
    elif order == "channels last" and len(sizes) > 2:
        x, grad = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (x, grad))
    elif order == "channels last":  # rows with gaps
        x = rl.cat([x, x], 1)[:, :channels]
    x, w, b = (t.requires_grad_() for t in (x, w, b))
    out = F.batch_norm(x, None, None, w, b, training=True)
    along = (slice(None), *[None] * (len(sizes) - 2))
    values, slopes, weight, bias = (t.detach().double().numpy() for t in (x, grad, w, b))
    scale = 1 / np.sqrt(values.var(others, keepdims=True) + 1e-5)
    normal = (values - values.mean(others, keepdims=True)) * scale
    products = (slopes * normal).mean(others, keepdims=True)
    inner = slopes - slopes.mean(others, keepdims=True) - normal * products
    count = values.size / channels
    expected = [normal * weight[along] + bias[along], inner * scale * weight[along],
                products.squeeze(others) * count, slopes.sum(others)]  # fmt: skip
    found = [out, *rl.autograd.grad(out, (x, w, b), grad)]
    step = rl.finfo(dtype).eps
    for ours, theirs, terms in zip(found, expected, (4, 4, 4 * count, count), strict=True):
        tolerance = step * (16 * max(1, abs(theirs).max()) + terms)
        np.testing.assert_allclose(ours.detach().double().numpy(), theirs, 0, tolerance)


@pytest.mark.parametrize("name", ["layer", "rms", "group", "instance"])
def test_rows_of_millions_of_elements_keep_their_digits(name):
    rl.manual_seed(0)
    x = rl.rand(1, 2, 2_000_000)
    if name == "instance":
        x = x.view(1, 1, -1)
        results = [F.instance_norm(v) for v in (x, x.double())]
    else:
        results = [NORMS[name](v if name == "group" else v.view(1, -1), None, None)
                   for v in (x, x.double())]  # fmt: skip
    assert (results[0] - results[1]).abs().max() < 1e-6


@pytest.mark.parametrize("kind", ["layer", "group", "batch"])
def test_float32_parameters_beside_16_bit_inputs_keep_their_digits(kind):
    rl.manual_seed(0)
    layer = {"layer": rl.nn.LayerNorm(6), "group": rl.nn.GroupNorm(2, 4),
             "batch": rl.nn.BatchNorm1d(4)}[kind]  # fmt: skip
    x, grad = rl.randn(5, 4, 6).bfloat16(), rl.randn(5, 4, 6).bfloat16()
    found = []
    for dtype in (rl.bfloat16, rl.float32):
        layer.zero_grad()
        layer(x.to(dtype)).backward(grad.to(dtype))
        found.append([p.grad.clone() for p in layer.parameters()])
    for reduced, full in zip(*found):
        assert reduced.dtype == rl.float32 and rl.allclose(reduced, full, rtol=1e-5, atol=1e-5)
