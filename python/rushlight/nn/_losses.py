"""Losses that are combinations of other operations; `functional` exports them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import rushlight
from rushlight import Tensor
from rushlight._autocast import autocasts
from rushlight._shown_name import shown_as
from rushlight._table import nn_functional as _table
from rushlight.nn._distances import pairwise_distance, value_at_least
from rushlight.nn._reduction import check_reduction, reduce_loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions


@autocasts("float32")
@shown_as("SoftMarginLossBackward0", "input")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-y x)). See `nn.SoftMarginLoss`."""
    loss = -_table.logsigmoid(target * input)
    return reduce_loss(loss, reduction, size_average, reduce)


@autocasts("float32")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where y is 1, max(margin - x, 0) where y is -1. See `nn.HingeEmbeddingLoss`."""
    zero = rushlight.zeros_like(input)
    apart = rushlight.where(target != 1, (margin - input).clamp_min(0), zero)
    together = rushlight.where(target != -1, input, zero)
    return reduce_loss(apart + together, reduction, size_average, reduce)


@autocasts("float32")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(-y (x1 - x2) + margin, 0). See `nn.MarginRankingLoss`."""
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss: all inputs must have the same number of dims but got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    loss = (-target * (input1 - input2) + margin).clamp_min(0)
    return reduce_loss(loss, reduction, size_average, reduce)


@autocasts("float32")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where y is 1, max(cos - margin, 0) where y is -1. See `nn.CosineEmbeddingLoss`."""
    if target.dim() > 1:
        raise RuntimeError(
            "cosine_embedding_loss: 0D or 1D target tensor expected, but it has "
            f"{target.dim()} dims"
        )
    expected = target.dim() + 1
    if input1.dim() != expected or input2.dim() != expected:
        raise RuntimeError(
            f"cosine_embedding_loss: a {target.dim()}D target needs {expected}D inputs but got "
            f"{tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    tiny = 1e-12
    dim = target.dim()
    dot = (input1 * input2).sum(dim)
    square1 = (input1 * input1).sum(dim) + tiny
    square2 = (input2 * input2).sum(dim) + tiny
    cos = dot / (square1 * square2).sqrt()
    zero = rushlight.zeros_like(cos)
    loss = rushlight.where(target == 1, 1 - cos, zero)
    loss = loss + rushlight.where(target == -1, (cos - margin).clamp_min(0), zero)
    return reduce_loss(loss, reduction, size_average, reduce)


@autocasts("float32")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(|a - p| - |a - n| + margin, 0). See `nn.TripletMarginLoss`."""

    def distance(x, y):
        return pairwise_distance(x, y, p, eps)

    points = (anchor, positive, negative)
    loss = _triplet_loss("triplet_margin_loss", points, distance, margin, swap)
    return reduce_loss(loss, reduction, size_average, reduce)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Triplet loss of any distance. See `nn.TripletMarginWithDistanceLoss`."""
    distance = pairwise_distance if distance_function is None else distance_function
    points = (anchor, positive, negative)
    loss = _triplet_loss("triplet_margin_with_distance_loss", points, distance, margin, swap)
    return reduce_loss(loss, reduction)


def _triplet_loss(name, points, distance, margin, swap):
    anchor, positive, negative = points
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            f"{name}: all inputs must have the same number of dims but got {anchor.dim()}, "
            f"{positive.dim()} and {negative.dim()}"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = rushlight.minimum(far, distance(positive, negative))
    return (margin + near - far).clamp_min(0)


@autocasts("float32")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of a Poisson distribution. See `nn.PoissonNLLLoss`."""
    if log_input:
        loss = rushlight.exp(input) - target * input
    else:
        loss = input - target * rushlight.log(input + eps)
    if full:
        stirling = target * rushlight.log(target) - target
        stirling = stirling + 0.5 * rushlight.log(2 * math.pi * target)
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduce_loss(loss, reduction, size_average, reduce)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of a normal distribution. See `nn.GaussianNLLLoss`."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var must not be negative but got {var}")
        var = var * rushlight.ones_like(input)
    if bool((var < 0).any()):
        raise ValueError("gaussian_nll_loss: var has negative elements")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.size()[:-1] != var.size()[:-1] or var.size(-1) != 1:
            # One dim of size 1 may stand anywhere; everything else must agree.
            if input.ndim != var.ndim or any(
                v not in (1, n) for v, n in zip(var.size(), input.size())
            ):
                raise ValueError(
                    f"gaussian_nll_loss: var is of incorrect size: {tuple(var.shape)} for input of "
                    f"shape {tuple(input.shape)}"
                )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    var = value_at_least(var, eps)
    loss = 0.5 * (rushlight.log(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return reduce_loss(loss, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy with logits, averaged over classes."""
    loss = -(target * _table.logsigmoid(input) + (1 - target) * _table.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduce_loss(loss.sum(-1) / input.size(-1), reduction, size_average, reduce)


@autocasts("float32")
@shown_as("MultiMarginLossBackward0", "input")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(margin - x[y] + x[i], 0)^p / C over the classes i other than y."""
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2 but got {p}")
    if input.dim() not in (0, 1, 2) or (input.dim() == 2 and input.size(1) == 0):
        raise RuntimeError(
            f"multi_margin_loss: expected input of 1 or 2 dims but got {tuple(input.shape)}"
        )
    classes = input.size(-1) if input.dim() else 1
    rows = input.reshape(-1, classes)
    labels = target.reshape(-1)
    if labels.numel() != rows.size(0) or target.dim() > 1:
        raise RuntimeError(
            f"multi_margin_loss: target of shape {tuple(target.shape)} does not fit input of "
            f"shape {tuple(input.shape)}"
        )
    if weight is not None and weight.dim() != 1:
        raise ValueError(
            f"multi_margin_loss: weight must be one-dimensional but has shape {tuple(weight.shape)}"
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"multi_margin_loss: expected {classes} weights but got shape {tuple(weight.shape)}"
        )
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            f"multi_margin_loss: expected weight of the input's dtype {input.dtype} but got "
            f"{weight.dtype}"
        )
    places = labels.unsqueeze(1)
    terms = (margin - rows.gather(1, places) + rows).relu()  # of which 0 has no gradient
    if p == 2:
        terms = terms * terms
    if weight is not None:
        terms = terms * weight[places]
    terms = terms.scatter(1, places, 0.0)  # the true class itself
    loss = terms.sum(1) / classes
    if input.dim() < 2 and target.dim() == 0:
        loss = loss.squeeze(0)
    return reduce_loss(loss, reduction, size_average, reduce)


@autocasts("float32")
@shown_as("MultilabelMarginLossBackward0", "input")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(1 - (x[y_j] - x[i]), 0) / C over targets y_j and the classes i that are no target."""
    check_reduction(reduction)
    if input.dim() > 2 or input.shape != target.shape:
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target of shape {tuple(target.shape)} for "
            f"input of shape {tuple(input.shape)}"
        )
    classes = input.size(-1) if input.dim() else 1
    rows = input.reshape(-1, classes)
    labels = target.reshape(-1, classes)
    # Targets count up to the first -1.
    listed = (labels < 0).to(rushlight.int64).cumsum(1) == 0
    places = labels.masked_fill(~listed, 0)
    is_target = rushlight.zeros_like(labels).scatter_add(1, places, listed.to(labels.dtype)) > 0
    # terms[n, j, i] for the target in place j and class i, up to the most targets of a row
    most = classes if input.is_meta else int(listed.any(0).sum())
    listed, places = listed[:, :most], places[:, :most]
    terms = (1 - (rows.gather(1, places).unsqueeze(2) - rows.unsqueeze(1))).relu()
    counted = listed.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = terms.masked_fill(~counted, 0).sum((1, 2)) / classes
    if input.dim() < 2:
        loss = loss.squeeze(0)
    return reduce_loss(loss, reduction, size_average, reduce)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target, ...).

    `linear_weight` is (C, in) or (C, d1, ..., in) for logits (N, C, d1, ...). `options` is how
    much memory may be used; it does not change the result.
    """
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            "linear_cross_entropy: expected linear_weight with dimensionality at least 2, got "
            f"{linear_weight.dim()}"
        )
    if linear_weight.dim() > 2 and input.dim() < 2:
        raise RuntimeError(
            f"linear_cross_entropy: linear_weight of shape {tuple(linear_weight.shape)} requires "
            "batched input, got shape "
            f"{tuple(input.shape)}"
        )
    logits = _table.linear(
        input,
        linear_weight if linear_weight.dim() == 2 else linear_weight.flatten(0, -2),
        None if linear_bias is None else linear_bias.reshape(-1),
    )
    if linear_weight.dim() > 1:
        logits = logits.reshape(*logits.shape[:-1], *linear_weight.shape[:-1])
    return _table.cross_entropy(
        logits,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )


@autocasts("float32")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the summed probability of all alignments of each target. See `nn.CTCLoss`."""
    batched = log_probs.dim() == 3
    if not batched:
        if log_probs.dim() != 2:
            raise RuntimeError(
                f"ctc_loss: log_probs must have 2 or 3 dims but has {log_probs.dim()}"
            )
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    batch = log_probs.size(1)
    input_lengths = _lengths("input_lengths", input_lengths, batch)
    target_lengths = _lengths("target_lengths", target_lengths, batch)
    labels = _padded_labels(targets, target_lengths, batch, log_probs.device)
    loss, _ = rushlight._ctc_loss_of(log_probs, labels, input_lengths, target_lengths, blank)
    if zero_infinity:
        loss = rushlight.where(loss == math.inf, rushlight.zeros_like(loss), loss)
    if reduction == "mean":
        divisor = rushlight.tensor(target_lengths, device=loss.device).clamp_min(1)
        return (loss / divisor.to(loss.dtype)).mean()
    if not batched and reduction == "none":
        return loss.squeeze(0)
    return reduce_loss(loss, reduction)


def _lengths(name, lengths, batch):
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == rushlight.bool:
            raise RuntimeError(f"ctc_loss: {name} must be integral but has dtype {lengths.dtype}")
        lengths = lengths.reshape(-1).tolist()
    lengths = [operator.index(n) for n in lengths]
    if len(lengths) != batch:
        raise RuntimeError(f"ctc_loss: {name} must have size {batch} but has {len(lengths)}")
    if any(n < 0 for n in lengths):
        raise RuntimeError(f"ctc_loss: {name} must not be negative but got {lengths}")
    return lengths


def _padded_labels(targets, target_lengths, batch, device):
    """The targets as (N, longest), whichever of the two forms they came in."""
    longest = max(target_lengths, default=0)
    if targets.dim() == 2:
        if targets.size(0) != batch or targets.size(1) < longest:
            raise RuntimeError(
                f"ctc_loss: targets of shape {tuple(targets.shape)} do not hold {batch} targets "
                f"of length {longest}"
            )
        return targets[:, :longest].to(device=device, dtype=rushlight.int64)
    if targets.dim() != 1 or targets.numel() != sum(target_lengths):
        raise RuntimeError(
            f"ctc_loss: targets of shape {tuple(targets.shape)} do not hold the "
            f"{sum(target_lengths)} labels that target_lengths says"
        )
    labels = rushlight.zeros(batch, longest, dtype=rushlight.int64, device=device)
    for i, part in enumerate(targets.split(target_lengths)):
        labels[i, : part.numel()] = part
    return labels
