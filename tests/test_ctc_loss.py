"""ctc_loss against the sum over all alignments, spelled out."""

import itertools
import math

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F

pytestmark = pytest.mark.kernels


def collapsed(alignment, blank):
    """What an alignment emits: repetitions are one label, and blanks none."""
    return [label for label, _ in itertools.groupby(alignment) if label != blank]


def by_alignments(probs, target, blank=0):
    """-log of the summed probability of every sequence of labels that emits the target."""
    steps, classes = probs.shape
    total = sum(
        math.prod(probs[t, label] for t, label in enumerate(alignment))
        for alignment in itertools.product(range(classes), repeat=steps)
        if collapsed(alignment, blank) == list(target)
    )
    return -math.log(total) if total else math.inf


def scores(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("target", [[], [1], [1, 1], [1, 3, 1], [3, 3, 3]])
def test_sums_over_all_alignments(target, blank):
    logits = scores(5, 1, 4)
    probs = logits.softmax(2)[:, 0].numpy()
    got = F.ctc_loss(
        logits.log_softmax(2), torch.tensor([target], dtype=torch.int64), [5], [len(target)],
        blank, reduction="none",
    )  # fmt: skip
    np.testing.assert_allclose(got.numpy(), [by_alignments(probs, target, blank)], rtol=1e-12)


def test_samples_have_lengths_of_their_own():
    logits, targets = scores(6, 3, 4), torch.tensor([[1, 2, 3], [2, 2, -7], [3, 99, 99]])
    inputs, lengths = [6, 4, 1], [3, 2, 1]  # what lies behind a target's end is not read
    expected = [
        by_alignments(logits.softmax(2)[:i, n].numpy(), targets[n, :k].tolist())
        for n, (i, k) in enumerate(zip(inputs, lengths))
    ]
    got = F.ctc_loss(logits.log_softmax(2), targets, inputs, lengths, reduction="none")
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    joined = torch.tensor([1, 2, 3, 2, 2, 3])
    again = F.ctc_loss(logits.log_softmax(2), joined, inputs, lengths, reduction="none")
    assert torch.equal(got, again)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_log_probs_that_lie_in_another_order(dtype):
    probs = scores(3, 7, 5).to(dtype).log_softmax(2)
    targets = torch.tensor([[1, 2], [2, 2], [4, 3]])
    lying = probs.permute(1, 0, 2)
    a = lying.detach().requires_grad_()
    b = lying.contiguous().requires_grad_()
    losses = [F.ctc_loss(x, targets, [7, 6, 5], [2, 2, 1], reduction="none") for x in (a, b)]
    assert torch.equal(*losses)
    for loss in losses:
        loss.sum().backward()
    assert torch.equal(a.grad, b.grad)


def test_gradient_of_the_logits():
    targets = torch.tensor([[1, 1, 2], [3, 1, 0]])

    def loss(logits, reduction):
        return F.ctc_loss(
            logits.log_softmax(2), targets, [6, 5], [3, 2], blank=0, reduction=reduction
        )

    for reduction in ("none", "mean", "sum"):
        logits = scores(6, 2, 4).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, r=reduction: loss(x, r), logits)


def test_gradient_is_that_of_eq_16():
    """exp(log_probs) less the states' shares, which sums to zero over the classes."""
    probs = scores(6, 2, 4).log_softmax(2).requires_grad_()
    F.ctc_loss(probs, torch.tensor([[1, 2], [3, 3]]), [6, 4], [2, 2], reduction="sum").backward()
    np.testing.assert_allclose(probs.grad.sum(2).numpy(), 0, atol=1e-12)
    assert torch.equal(probs.grad[4:, 1], torch.zeros(2, 4, dtype=torch.float64))


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_targets_longer_than_the_input(zero_infinity):
    probs = scores(2, 2, 4).log_softmax(2).requires_grad_()
    loss = F.ctc_loss(
        probs, torch.tensor([[1, 1], [1, 2]]), [2, 2], [2, 2], reduction="none",
        zero_infinity=zero_infinity,
    )  # fmt: skip
    assert loss[0] == (0 if zero_infinity else math.inf)
    assert loss[1].isfinite()
    loss.sum().backward()
    if zero_infinity:
        assert torch.equal(probs.grad[:, 0], torch.zeros(2, 4, dtype=torch.float64))
    else:
        assert probs.grad[:, 0].isnan().all()
    assert probs.grad[:, 1].isfinite().all()


def test_unlikely_alignments_do_not_underflow():
    """Of probabilities whose product is far below the smallest number."""
    probs = torch.full((40, 1, 3), -math.inf)
    probs[..., 0], probs[..., 1] = -500.0, -0.0
    probs[:, 0, 2] = -1000.0
    loss = F.ctc_loss(probs, torch.tensor([[2] * 10 + [1]]), [40], [11], reduction="sum")
    # ten times label 2, nine blanks between, and label 1 for the rest
    assert loss.item() == pytest.approx(10 * 1000 + 9 * 500, rel=1e-6)


def test_minus_infinity_and_nan():
    probs = scores(4, 2, 3).log_softmax(2)
    probs[:, 0, 1] = -math.inf
    probs[2, 1, 0] = math.nan
    loss = F.ctc_loss(probs, torch.tensor([[1], [1]]), [4, 4], [1, 1], reduction="none")
    assert loss[0] == math.inf and loss[1].isnan()


def test_the_second_derivative_is_refused():
    probs = scores(4, 1, 3).log_softmax(2).requires_grad_()
    loss = F.ctc_loss(probs, torch.tensor([[1]]), [4], [1])
    (grad,) = torch.autograd.grad(loss, probs, create_graph=True)
    with pytest.raises(RuntimeError, match="ctc_loss"):
        grad.sum().backward()


@pytest.mark.parametrize(
    "labels, inputs, targets, blank, error",
    [
        ([[5]], [4], [1], 0, (IndexError, RuntimeError)),
        ([[-1]], [4], [1], 0, (IndexError, RuntimeError)),
        ([[1]], [5], [1], 0, RuntimeError),
        ([[1]], [4], [2], 0, RuntimeError),
        ([[1]], [4, 4], [1], 0, RuntimeError),
        ([[1]], [4], [-1], 0, RuntimeError),
        ([[1]], [4], [1], 3, RuntimeError),
    ],
)
def test_what_does_not_fit_is_refused(labels, inputs, targets, blank, error):
    with pytest.raises(error, match="ctc_loss"):
        F.ctc_loss(scores(4, 1, 3).log_softmax(2), torch.tensor(labels), inputs, targets, blank)


def test_empty_batch():
    loss = F.ctc_loss(
        torch.zeros(4, 0, 3), torch.zeros(0, 2, dtype=torch.int64), [], [], reduction="none"
    )
    assert loss.shape == (0,)
