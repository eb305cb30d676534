"""Bags of embeddings; `functional` exports it."""

import rushlight
from rushlight.nn import functional as F


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sums, means or maxima of bags of embeddings. See `nn.EmbeddingBag`.

    Args:
        input: (B, N) bags of equal size, or (N,) indices with the bags' starts in `offsets`.
        weight: (num_embeddings, embedding_dim).
        per_sample_weights: a factor for each index; only with mode="sum".
    """
    _check_bag(input, weight, offsets, mode, per_sample_weights)
    if padding_idx is not None:
        if not -weight.size(0) <= padding_idx < weight.size(0):
            raise AssertionError(
                f"padding_idx: {padding_idx} is outside the {weight.size(0)} embeddings"
            )
        padding_idx %= weight.size(0)
    if input.dim() == 2:
        count, size = input.shape
        bag = rushlight.arange(count, device=input.device).repeat_interleave(size)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    else:
        bag, count = _bag_of_each(input, offsets, include_last_offset)
    vectors = F.embedding(
        input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
    )
    if per_sample_weights is not None:
        vectors = vectors * per_sample_weights.unsqueeze(-1)
    if padding_idx is not None:
        kept = (input != padding_idx).nonzero().squeeze(1)
        vectors, bag = vectors.index_select(0, kept), bag.index_select(0, kept)
    return _reduce_bags(vectors, bag, count, mode)


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


def _bag_of_each(input, offsets, include_last_offset):
    """The number of the bag of each index, and how many bags there are."""
    starts = offsets.tolist()
    if not starts or starts[0] != 0:
        raise RuntimeError("embedding_bag: offsets must begin with 0, the start of the first bag")
    if starts[-1] > input.numel():
        raise RuntimeError(
            f"embedding_bag: the last offset {starts[-1]} is beyond the {input.numel()} indices"
        )
    if include_last_offset:
        ends = starts[1:]
        starts = starts[:-1]
    else:
        ends = [*starts[1:], input.numel()]
    lengths = rushlight.tensor(
        [end - start for start, end in zip(starts, ends)],
        dtype=rushlight.int64,
        device=input.device,
    )
    bags = rushlight.arange(len(starts), device=input.device)
    bag = bags.repeat_interleave(lengths)
    if bag.numel() < input.numel():  # indices after the last offset belong to no bag
        raise RuntimeError(
            f"embedding_bag: offsets end at {bag.numel()} but there are {input.numel()} indices"
        )
    return bag, len(starts)


def _reduce_bags(vectors, bag, count, mode):
    empty = vectors.new_zeros((count, vectors.size(1)))
    if mode == "max":
        places = bag.unsqueeze(1).expand_as(vectors)
        return empty.scatter_reduce(0, places, vectors, "amax", include_self=False)
    total = empty.index_add(0, bag, vectors)
    if mode == "sum":
        return total
    ones = rushlight.ones_like(bag, dtype=vectors.dtype)
    sizes = vectors.new_zeros(count).index_add(0, bag, ones).clamp_min(1)
    return total / sizes.unsqueeze(1)
