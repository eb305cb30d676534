"""Bags of embeddings; `functional` exports it."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_program


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of embeddings. See `nn.EmbeddingBag`.

    Args:
        input: (B, N) bags of equal size, or (N,) indices with the bags' starts in `offsets`.
        weight: (num_embeddings, embedding_dim).
        per_sample_weights: a factor for each index; only with mode="sum".
    """
    if weight.dtype == rushlight.int64 and input.is_floating_point():
        warn_program(
            "embedding_bag: the weight first is the order of arguments of 2017: "
            "give the indices first"
        )
        input, weight = weight, input
    _check_bag(input, weight, offsets, mode, per_sample_weights)
    if padding_idx is not None:
        if not -weight.size(0) <= padding_idx < weight.size(0):
            count = weight.size(0)
            raise RuntimeError(
                "embedding_bag: padding_idx must be within the number of embeddings, "
                f"-{count} through {count - 1}, but got {padding_idx}"
            )
        padding_idx %= weight.size(0)
    if input.dim() == 2:
        count, size = input.shape
        offsets = rushlight.arange(count, device=input.device) * size
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    else:
        offsets, input, per_sample_weights = _starts(
            input, offsets, per_sample_weights, include_last_offset
        )
    if max_norm is not None:
        with rushlight.no_grad():
            rushlight.embedding_renorm_(weight, input, max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx
    if sparse and weight.requires_grad and rushlight._C._records():
        return _with_sparse_gradient(
            weight, input, offsets, mode, per_sample_weights, padding, scale_grad_by_freq
        )
    return rushlight._embedding_bag_of(
        weight, input, offsets, mode, per_sample_weights, padding, scale_grad_by_freq
    )[0]


def _with_sparse_gradient(weight, input, offsets, mode, factors, padding, scale_grad_by_freq):
    """The bags from single lookups, whose gradient is sparse."""
    if mode == "max" or scale_grad_by_freq:
        what = "mode='max'" if mode == "max" else "scale_grad_by_freq"
        raise RuntimeError(f"embedding_bag: sparse gradients do not go with {what}")
    # Rows of no columns: this checks the arguments as the bags without a sparse gradient do.
    columns, scale = weight.detach()[:, :0], None if factors is None else factors.detach()
    rushlight._embedding_bag_of(columns, input, offsets, mode, scale, padding, False)
    input = input.long()
    places = rushlight.arange(len(input), device=input.device)
    bag = rushlight.searchsorted(offsets.long(), places, right=True) - 1
    kept = (input != padding).to(weight.dtype)
    rows = rushlight.embedding(weight, input, padding, False, True)
    scale = kept if factors is None else kept * factors
    sums = weight.new_zeros(len(offsets), weight.size(1)).index_add(
        0, bag, rows * scale.unsqueeze(1)
    )
    if mode == "sum":
        return sums
    counts = weight.new_zeros(len(offsets)).index_add(0, bag, kept)
    return sums / counts.clamp(min=1).unsqueeze(1)


def _check_bag(input, weight, offsets, mode, per_sample_weights):
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be sum, mean or max but is {mode!r}")
    if weight.dim() != 2:
        raise ValueError(f"embedding_bag: weight must have 2 dims but has {weight.dim()}")
    if input.dim() not in (1, 2):
        raise ValueError(f"embedding_bag: input must have 1 or 2 dims but has {input.dim()}")
    if input.dim() == 2 and offsets is not None:
        raise ValueError("embedding_bag: offsets must be None for 2D input, whose rows are bags")
    if input.dim() == 1 and offsets is None:
        raise ValueError("embedding_bag: 1D input needs offsets")
    if offsets is not None and offsets.dim() != 1:
        raise ValueError(f"embedding_bag: offsets must have 1 dim but has {offsets.dim()}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights need mode='sum' but mode is {mode!r}"
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: per_sample_weights of shape {tuple(per_sample_weights.shape)} "
                f"for input of shape {tuple(input.shape)}"
            )


def _starts(input, offsets, factors, include_last_offset):
    """Where each bag begins, and the indices and factors up to where the last one ends."""
    if not include_last_offset:
        return offsets, input, factors
    if not offsets.numel():
        raise RuntimeError("embedding_bag: include_last_offset needs at least 1 offset, the end")
    if offsets.is_meta:
        start, end = 0, input.numel()
    else:
        start, end = int(offsets[0]), int(offsets[-1])
    if start != 0:
        raise RuntimeError(
            f"embedding_bag: offsets[0] has to be 0, where the first bag begins, got {start}"
        )
    if not 0 <= end <= input.numel():
        raise RuntimeError(
            f"embedding_bag: the last offset {end} is beyond the {input.numel()} indices"
        )
    return offsets[:-1], input[:end], None if factors is None else factors[:end]
