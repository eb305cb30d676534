"""Cross entropy in one pass, softmax over lines of every length, beside their definitions."""

import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F

pytestmark = pytest.mark.kernels

# Rows of one class, of less than a vector, of several pieces; so many that they are turned; images;
# lines that lie across.
SHAPES = [(5, 1), (7, 10), (3, 17), (2, 9001), (300, 10), (41, 17), (2, 5, 3, 4), (2, 3, 70),
          (0, 4), (2, 3, 0)]  # fmt: skip


def operands(shape, strided=False, seed=0):
    random = np.random.default_rng(seed)
    x = rl.from_numpy(3 * random.standard_normal(shape))
    target = rl.from_numpy(random.integers(0, shape[1], (shape[0], *shape[2:])))
    if target.numel() > 1:
        target.view(-1)[1] = -100
    if strided:
        x = x.transpose(0, 1).repeat_interleave(2, 0)[::2].transpose(0, 1)
    return x.requires_grad_(), target, rl.from_numpy(random.random(shape[1]) + 0.1)


def by_definition(x, target, weight, smoothing, reduction):
    """From log_softmax, term by term."""
    logs = x.log_softmax(1)
    kept = target != -100
    w = weight if weight is not None else rl.ones(x.shape[1], dtype=x.dtype)
    index = target.masked_fill(~kept, 0)
    used = w[index] * kept
    hard = -logs.gather(1, index.unsqueeze(1)).squeeze(1) * used
    even = -(logs * w.view(-1, *[1] * (x.dim() - 2))).sum(1) * kept
    loss = (1 - smoothing) * hard + smoothing / x.shape[1] * even
    if reduction == "none":
        return loss
    return loss.sum() / (used.sum() if reduction == "mean" else 1)


CASES = list(itertools.product([False, True], [0.0, 0.3], ["none", "sum", "mean"]))


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy(shape, strided):
    x, target, weight = operands(shape, strided)
    for weighted, smoothing, reduction in CASES:
        w = weight if weighted else None
        loss = F.cross_entropy(x, target, w, label_smoothing=smoothing, reduction=reduction)
        expected = by_definition(x, target, w, smoothing, reduction)
        rl.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        grad = rl.cos(rl.arange(loss.numel(), dtype=rl.float64)).view(loss.shape)
        ours, composed = (
            rl.autograd.grad(loss, x, grad, retain_graph=True, create_graph=again)[0]
            for again in (False, True)
        )
        reference = rl.autograd.grad(expected, x, grad)[0]
        rl.testing.assert_close(ours, reference, rtol=1e-8, atol=1e-10)
        rl.testing.assert_close(composed.detach(), reference, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 4)], ids=str)
def test_second_derivative_and_forward_mode(shape):
    x, target, weight = operands(shape)
    assert rl.autograd.gradcheck(
        lambda t: F.cross_entropy(t, target, weight, label_smoothing=0.2), x, check_forward_ad=True
    )
    assert rl.autograd.gradgradcheck(
        lambda t: F.cross_entropy(t, target, weight, label_smoothing=0.2), x
    )


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
@pytest.mark.parametrize("shape", [(7, 33), (50, 33), (2, 5, 9)], ids=str)
def test_half_precision(shape, dtype):
    wide, target, weight = operands(shape)
    half = wide.detach().to(dtype).requires_grad_()
    wide = half.detach().float().requires_grad_()
    losses = [
        F.cross_entropy(t, target, weight.to(t.dtype), label_smoothing=0.1) for t in (half, wide)
    ]
    step = rl.finfo(dtype).eps
    assert losses[0].dtype == dtype
    rl.testing.assert_close(losses[0].float(), losses[1], rtol=2 * step, atol=0)
    for loss in losses:
        loss.backward()
    rl.testing.assert_close(half.grad.float(), wide.grad, rtol=2 * step, atol=step)


def test_scores_far_from_zero_and_infinite_ones():
    x = rl.tensor([[3e4, 3e4 + 1, -3e4], [float("-inf"), 0.0, 1.0]], requires_grad=True)
    loss = F.cross_entropy(x, rl.tensor([0, 2]), reduction="none")
    rl.testing.assert_close(loss, rl.tensor([1.3132617, 0.3132617]))
    loss.sum().backward()
    rl.testing.assert_close(
        x.grad, rl.tensor([[-0.7310586, 0.7310586, 0], [0, 0.2689414, -0.2689414]])
    )
    assert F.cross_entropy(rl.full((1, 3), float("-inf")), rl.tensor([0])).isnan()
    assert F.cross_entropy(rl.tensor([[1.0, float("nan")]]), rl.tensor([0])).isnan()


def test_nothing_but_ignored_targets():
    x = rl.randn(3, 4, requires_grad=True)
    target = rl.full((3,), -100)
    assert F.cross_entropy(x, target).isnan()
    loss = F.cross_entropy(x, target, reduction="sum", label_smoothing=0.1)
    assert loss == 0
    loss.backward()
    assert not x.grad.any()


def test_refuses():
    x, target = rl.randn(3, 4), rl.tensor([0, 1, 2])
    with pytest.raises(IndexError, match="Target 4 is out of bounds for 4 classes"):
        F.cross_entropy(x, target + 2)
    with pytest.raises(RuntimeError, match="all 4 classes"):
        F.cross_entropy(x, target, rl.ones(3))
    with pytest.raises(RuntimeError, match="all 4 classes"):
        F.cross_entropy(x, x.softmax(1), rl.ones(3))
    with pytest.raises(RuntimeError, match="ignore_index"):
        F.cross_entropy(x, x.softmax(1), ignore_index=2)
    with pytest.raises(RuntimeError, match="not differentiable"):
        F.cross_entropy(x, target, rl.ones(4, requires_grad=True))


@pytest.mark.parametrize("n", [1, 2, 15, 33, 1000, 9001])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("lines", [6, 300])
def test_softmax_of_lines(n, across, lines):
    x = np.random.default_rng(0).standard_normal((lines, n)) * 20
    x[0, : n // 2] = -np.inf
    weights = np.exp(x - x.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = x - x.max(1, keepdims=True) - np.log(weights.sum(1, keepdims=True))
    tensor = rl.from_numpy(np.ascontiguousarray(x.T) if across else x)
    dim = 0 if across else 1
    for ours, reference in (
        (tensor.softmax(dim), expected), (tensor.log_softmax(dim), logs),
        (tensor.logsumexp(dim), x.max(1) + np.log(weights.sum(1))),
    ):  # fmt: skip
        found = ours.numpy().T if across else ours.numpy()
        np.testing.assert_allclose(found, reference, 1e-9, 1e-14)  # logs near 0 are differences


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("n", [2, 7, 16, 40, 90, 600])
def test_many_lines(n, dtype):
    """Beside the same lines one by one, in any layout, with infinite scores and NaN."""
    random = np.random.default_rng(1)
    x = rl.from_numpy(random.standard_normal((530, n)) * 5).to(getattr(rl, dtype))
    x[3], x[4, 1], x[5, 0], x[6, 1] = -np.inf, np.nan, -np.inf, np.inf
    grad = rl.from_numpy(random.standard_normal((530, n))).to(x.dtype)
    wide = rl.zeros(530, n + 3, dtype=x.dtype)
    wide[:, 1:-2] = x
    turned = x.view(10, 53, n).transpose(0, 1)
    eps = rl.finfo(x.dtype).eps  # a gradient subtracts a sum of n, in another order in each way
    tolerance = {"rtol": (8 + n / 16) * eps, "atol": (8 + n / 2) * eps}

    def columns(x):  # lie behind one another
        return x.t().contiguous().t()

    def results(of, grad, dim=-1):
        of = of.detach().requires_grad_()
        values = of.softmax(dim), of.log_softmax(dim)
        return [*values, *(rl.autograd.grad(v, of, grad)[0] for v in values)]

    def close(a, b):
        rl.testing.assert_close(a, b, equal_nan=True, **tolerance)

    one_by_one = zip(*(results(line, g) for line, g in zip(x, grad)))
    expected = [rl.stack(lines) for lines in one_by_one]
    for of, g in itertools.product((x, wide[:, 1:-2], columns(x)), (grad, columns(grad))):
        for ours, other in zip(results(of, g), expected):
            close(ours, other)
    for ours, other in zip(results(turned, grad.view(10, 53, n).transpose(0, 1)), expected):
        close(ours.transpose(0, 1).reshape(530, n), other)
    same = grad[:1].expand(530, n)
    for ours, other in zip(results(x, same), results(x, same.contiguous())):
        close(ours, other)
    for neighbours in (1, 2, 5, 10, 53):  # along a dim in the middle
        of, g = (t.view(-1, neighbours, n).transpose(1, 2) for t in (x, grad))
        spread = rl.zeros(*of.shape[:2], 2 * neighbours, dtype=x.dtype)
        spread[..., ::2] = of
        for lies in (of.contiguous(), spread[..., ::2], of):
            for ours, other in zip(results(lies, g, 1), expected):
                close(ours.transpose(1, 2).reshape(530, n), other)


def test_lines_across_that_threads_share_one_by_one():
    x, before = rl.randn(20000, 4), rl.get_num_threads()
    try:
        results = []
        for threads in (1, 3, 4):
            rl.set_num_threads(threads)
            results.append((x.softmax(0), x.log_softmax(0)))
    finally:
        rl.set_num_threads(before)
    for other in results[1:]:
        assert all(map(rl.equal, results[0], other))
