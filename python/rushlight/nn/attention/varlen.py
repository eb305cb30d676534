"""Attention of sequences of several lengths that lie behind each other."""

from __future__ import annotations

from typing import NamedTuple

import rushlight
from rushlight import Tensor

__all__ = ["AuxRequest", "varlen_attn"]


class AuxRequest(NamedTuple):
    """What `varlen_attn` returns beside the result.

    lse: the logarithms of the sums that softmax divides by.
    """

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention within each of several sequences, whose tokens lie behind each other.

    Sequence i has the queries `cu_seq_q[i]` to `cu_seq_q[i + 1]`, and the keys likewise. Its last
    query sees its last key: with fewer queries than keys, they are the last ones.

    Args:
        query: (tokens, heads, size).
        key, value: (tokens, heads of keys, size), or pages (pages, tokens of a page, heads, size)
            with a `block_table`.
        cu_seq_q: where sequences of queries begin, and the end of the last one; integers (N + 1).
        cu_seq_k: the same of keys; may be None with a `block_table`.
        max_q, max_k: the longest sequences; longer ones are errors.
        return_aux: AuxRequest(lse=True) to return (result, lse) with lse (heads, tokens).
        scale: of the products; by default 1 / sqrt(size).
        window_size: how many keys before and after its own a query sees; -1 for all. (-1, 0) is
            causal attention.
        enable_gqa: let each head of keys serve several heads of queries.
        seqused_k: how many of each sequence's keys count (N).
        block_table: the pages of each sequence, in order (N, pages); needs `seqused_k`.
        num_splits: accepted: a sequence's result does not depend on the others here.

    Returns:
        (tokens, heads, size of values).

    Raises:
        ValueError: a sequence is longer than `max_q` or `max_k`, or the arguments do not fit.
    """
    ends_q, parts = cu_seq_q.tolist(), []
    for i, (begin, end) in enumerate(zip(ends_q, ends_q[1:])):
        k, v = _keys_of(i, key, value, cu_seq_k, seqused_k, block_table)
        if end - begin > max_q or len(k) > max_k:
            raise ValueError(
                f"varlen_attn: sequence {i} has {end - begin} queries and {len(k)} keys, more than "
                f"max_q={max_q} or max_k={max_k}"
            )
        parts.append(_attend(query[begin:end], k, v, scale, window_size, enable_gqa, return_aux))
    result = rushlight.cat([part for part, _ in parts]) if parts else query.new_empty(query.shape)
    if return_aux is not None and return_aux.lse:
        return result, rushlight.cat([lse for _, lse in parts], 1)
    return result


def _keys_of(i, key, value, cu_seq_k, seqused_k, block_table):
    """The keys and values of sequence i."""
    used = None if seqused_k is None else int(seqused_k[i])
    if block_table is not None:
        if used is None:
            raise ValueError("varlen_attn: block_table needs seqused_k")
        pages = block_table[i, : -(-used // key.shape[1])].long()
        return key[pages].flatten(0, 1)[:used], value[pages].flatten(0, 1)[:used]
    if cu_seq_k is None:
        raise ValueError("varlen_attn: cu_seq_k is needed without a block_table")
    begin, end = int(cu_seq_k[i]), int(cu_seq_k[i + 1])
    if used is not None:
        end = min(end, begin + used)
    return key[begin:end], value[begin:end]


def _attend(query, key, value, scale, window_size, enable_gqa, return_aux):
    """(result, lse or None) of one sequence."""
    q, k, v = (x.transpose(0, 1) for x in (query, key, value))
    mask = _window(query, len(query), len(key), window_size)
    result = rushlight.nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None], mask, scale=scale, enable_gqa=enable_gqa
    )[0].transpose(0, 1)
    if return_aux is None or not return_aux.lse:
        return result, None
    k = k.repeat_interleave(len(q) // len(k), 0)
    scores = (q @ k.mT).float() * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
    return result, scores.logsumexp(-1)


def _window(like, queries, keys, window_size):
    """Which keys each query sees (queries, keys); None for all."""
    before, after = window_size
    if before < 0 and after < 0:
        return None
    place = rushlight.arange(queries, device=like.device)[:, None] + keys - queries
    distance = rushlight.arange(keys, device=like.device) - place
    seen = rushlight.ones(queries, keys, dtype=rushlight.bool, device=like.device)
    if before >= 0:
        seen &= distance >= -before
    return seen if after < 0 else seen & (distance <= after)
