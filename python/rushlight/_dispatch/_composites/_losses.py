"""Losses."""

from __future__ import annotations

import math

from rushlight._dispatch._composites._statistics import _pairwise_distance
from rushlight._dispatch._emit import emit, flatten, reshape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _number(size_average, reduce, reduction):
    """The reduction as a number; None if it is not one."""
    if size_average is not None or reduce is not None:
        size_average = size_average is None or size_average
        reduction = "none" if reduce is False or reduce == 0 else "mean" if size_average else "sum"
    return _REDUCTIONS.get(reduction, reduction if isinstance(reduction, int) else None)


def _reduced(loss, number):
    return loss if number == 0 else emit("mean" if number == 1 else "sum", loss)


def _loss(name, *names):
    """A loss of (input, target, ...) that is one operation; `names` are its other arguments."""

    def loss(input, target, *args, size_average=None, reduce=None, reduction="mean", **kwargs):
        legacy = [size_average, reduce, reduction]
        others = []
        for place, value in enumerate(args):
            if place < 3:
                legacy[place] = value
            else:
                others.append(value)
        number = _number(*legacy)
        if number is None or kwargs.pop("weight", None) is not None:
            return NotImplemented
        for place, (option, default) in enumerate(names):
            if place >= len(others):
                others.append(kwargs.pop(option, default))
        if kwargs:
            return NotImplemented
        defaults = [1, *(default for _, default in names)]
        given = [number, *others]
        while given and given[-1] == defaults[len(given) - 1]:
            given.pop()
        return emit(name, input, target, *given)

    return loss


def _l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    number = _number(size_average, reduce, reduction)
    if number is None or weight is not None:
        return NotImplemented
    return _reduced(emit("abs", emit("sub.Tensor", input, target)), number)


def _weighted_losses(input, target, weight, reduction, ignore_index):
    if input.dim() in (1, 2):
        return emit("nll_loss_forward", input, target, weight, reduction, ignore_index)[0]
    n, c = input.shape[:2]
    if input.dim() != 4:
        input = reshape(input, (n, c, 1, -1) if input.numel() else (n, c, 0, 0))
        shape, target = target.shape, reshape(target, (n, 1, -1) if input.numel() else (n, 0, 0))
    else:
        shape = None
    loss = emit("nll_loss2d_forward", input, target, weight, reduction, ignore_index)[0]
    return reshape(loss, tuple(shape)) if shape is not None and reduction == 0 else loss


def _nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
              reduction="mean"):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    if number is None or input.dim() < 1:
        return NotImplemented
    return _weighted_losses(input, target, weight, number, ignore_index)


def _cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                   reduction="mean", label_smoothing=0.0):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    dim = 0 if input.dim() == 1 else 1
    if number is None or input.dim() < 1 or not 0 <= label_smoothing <= 1:
        return NotImplemented
    if target.shape == input.shape and target.is_floating_point():
        return _cross_entropy_of_probabilities(input, target, weight, number, dim, label_smoothing)
    if target.is_floating_point():
        return NotImplemented
    scores = emit("_log_softmax", input, dim, False)
    loss = _weighted_losses(scores, target, weight, number, ignore_index)
    if not label_smoothing:
        return loss
    even = _even_loss(scores, target, weight, number, dim, ignore_index)
    even = emit("mul.Scalar", even, label_smoothing / input.shape[dim])
    return emit("add.Tensor", emit("mul.Scalar", loss, 1 - label_smoothing), even)


def _even_loss(scores, target, weight, number, dim, ignore_index):
    """The loss if all classes were as probable."""
    weighted = scores
    if weight is not None:
        shape = [weight.shape[0] if d == dim else 1 for d in range(scores.dim())]
        weighted = emit("mul.Tensor", scores, emit("view", weight, shape))
    each = emit("neg", emit("sum.dim_IntList", weighted, [dim]))
    ignored = emit("eq.Scalar", target, ignore_index)
    each = emit("masked_fill_.Scalar", each, ignored, 0.0)
    if number != 1:
        return _reduced(each, number)
    if weight is None:
        count = emit("sum", emit("bitwise_not", ignored))
        return emit("div.Tensor", emit("sum", each), count)
    places = emit("masked_fill.Scalar", target, ignored, 0)
    kept = emit("gather", weight, 0, flatten(places))
    kept = emit("masked_fill_.Scalar", kept, flatten(ignored), 0)
    return emit("div.Tensor", emit("sum", each), emit("sum", kept))


def _cross_entropy_of_probabilities(input, target, weight, number, dim, smoothing):
    scores = emit("_log_softmax", input, dim, False)
    if smoothing:
        kept = emit("mul.Scalar", target, 1 - smoothing)
        target = emit("add.Scalar", kept, smoothing / input.shape[dim])
    if weight is not None:
        shape = [1] * input.dim()
        shape[dim] = weight.shape[0]
        scores = emit("mul.Tensor", scores, emit("view", weight, shape))
    product = emit("mul.Tensor", scores, target)
    if number == 0:
        return emit("neg", emit("sum.dim_IntList", product, [dim]))
    total = emit("neg", emit("sum", product))
    if number == 2:
        return total
    return emit("div.Scalar", total, input.numel() // input.shape[dim])


def _kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    batch = reduction == "batchmean" and size_average is None and reduce is None
    number = 2 if batch else _number(size_average, reduce, reduction)
    if number is None:
        return NotImplemented
    if log_target:
        apart = emit("sub.Tensor", target, input)
        terms = emit("mul.Tensor", emit("exp", target), apart)
    else:
        product = emit("mul.Tensor", target, input)
        terms = emit("sub.Tensor", emit("xlogy.Tensor", target, target), product)
    loss = _reduced(terms, number)
    return emit("div.Tensor", loss, input.shape[0]) if batch and input.dim() else loss


def _poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8,
                      reduce=None, reduction="mean"):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    if number is None:
        return NotImplemented
    if log_input:
        product = emit("mul.Tensor", target, input)
        loss = emit("sub.Tensor", emit("exp", input), product)
    else:
        logarithm = emit("log", emit("add.Scalar", input, eps))
        loss = emit("sub.Tensor", input, emit("mul.Tensor", target, logarithm))
    if full:
        root = emit("mul.Scalar", emit("log", emit("mul.Scalar", target, 2 * math.pi)), 0.5)
        term = emit("mul.Tensor", target, emit("log", target))
        term = emit("add.Tensor", emit("sub.Tensor", term, target), root)
        term = emit("masked_fill.Scalar", term, emit("le.Scalar", target, 1), 0)
        loss = emit("add_.Tensor", loss, term)
    return _reduced(loss, number)


def _margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None,
                         reduction="mean"):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    if number is None:
        return NotImplemented
    apart = emit("sub.Tensor", input1, input2)
    product = emit("mul.Tensor", emit("neg", target), apart)
    loss = emit("clamp_min_", emit("add.Scalar", product, margin), 0)
    return _reduced(loss, number)


def _from(number, x):
    """number - x, as torch's C++ has it."""
    filled = emit("fill_.Scalar", emit("empty_like", x), number)
    return emit("sub_.Tensor", filled, x)


def _hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None,
                          reduction="mean"):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    if number is None:
        return NotImplemented
    zeros = emit("zeros_like", input)
    below = emit("clamp_min_", _from(margin, input), 0)
    below = emit("where.self", emit("ne.Scalar", target, 1), below, zeros)
    own = emit("where.self", emit("ne.Scalar", target, -1), input, zeros)
    return _reduced(emit("add.Tensor", below, own), number)


def _cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None,
                           reduction="mean"):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    if number is None or target.dim() + 1 != input1.dim() or input1.dim() != input2.dim():
        return NotImplemented
    dim = target.dim()

    def dot(a, b):
        return emit("sum.dim_IntList", emit("mul.Tensor", a, b), [dim])

    product = dot(input1, input2)
    lengths = [emit("add.Scalar", dot(x, x), 1e-12) for x in (input1, input2)]
    cosine = emit("div.Tensor", product, emit("sqrt_", emit("mul.Tensor", *lengths)))
    zeros = emit("zeros_like", cosine)
    alike = _from(1, cosine)
    unlike = emit("clamp_min_", emit("sub.Scalar", cosine, margin), 0)
    alike = emit("where.self", emit("eq.Scalar", target, 1), alike, zeros)
    unlike = emit("where.self", emit("eq.Scalar", target, -1), unlike, zeros)
    return _reduced(emit("add.Tensor", alike, unlike), number)


def _triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False,
                         size_average=None, reduce=None, reduction="mean"):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    if number is None or not anchor.dim() == positive.dim() == negative.dim():
        return NotImplemented
    near = _pairwise_distance(anchor, positive, p, eps)
    far = _pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = emit("minimum", far, _pairwise_distance(positive, negative, p, eps))
    loss = emit("sub.Tensor", emit("add.Scalar", near, margin), far)
    return _reduced(emit("clamp_min", loss, 0), number)


def _multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    number = _number(size_average, reduce, reduction)
    if number is None:
        return NotImplemented
    return emit("multilabel_margin_loss_forward", input, target, number)[0]


def _multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None,
                       reduce=None, reduction="mean"):  # fmt: skip
    number = _number(size_average, reduce, reduction)
    if number is None:
        return NotImplemented
    return emit("multi_margin_loss", input, target, p, margin, weight, number)


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
              zero_infinity=False):  # fmt: skip
    number = _REDUCTIONS.get(reduction)
    tensors = [hasattr(v, "dim") for v in (input_lengths, target_lengths)]
    if number is None or any(tensors) != all(tensors):
        return NotImplemented
    name = "_ctc_loss.Tensor" if any(tensors) else "_ctc_loss"
    loss = emit(name, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        zero = emit("zeros", [], dtype=loss.dtype)
        loss = emit("where.self", emit("eq.Scalar", loss, math.inf), zero, loss)
    if number != 1:
        return _reduced(loss, number)
    if not any(tensors):
        return NotImplemented
    lengths = emit("clamp_min", target_lengths, 1)
    return emit("mean", emit("div.Tensor", loss, lengths))


def _smooth_l1_loss(*args, beta=1.0, **kwargs):
    if not beta:
        return _l1_loss(*args, **kwargs)
    return _loss("smooth_l1_loss", ("beta", 1.0))(*args, beta=beta, **kwargs)


WRITTEN: dict[str, Callable[..., Any]] = {
    "mse_loss": _loss("mse_loss"), "l1_loss": _l1_loss, "nll_loss": _nll_loss,
    "smooth_l1_loss": _smooth_l1_loss,
    "huber_loss": lambda input, target, reduction="mean", delta=1.0, weight=None: (
        _loss("huber_loss", ("delta", 1.0))(
            input, target, reduction=reduction, delta=delta, weight=weight
        )
    ),
    "soft_margin_loss": _loss("soft_margin_loss"), "cross_entropy": _cross_entropy,
    "kl_div": _kl_div, "poisson_nll_loss": _poisson_nll_loss,
    "margin_ranking_loss": _margin_ranking_loss, "hinge_embedding_loss": _hinge_embedding_loss,
    "cosine_embedding_loss": _cosine_embedding_loss, "ctc_loss": _ctc_loss,
    "triplet_margin_loss": _triplet_margin_loss, "multi_margin_loss": _multi_margin_loss,
    "multilabel_margin_loss": _multilabel_margin_loss,
}  # fmt: skip
