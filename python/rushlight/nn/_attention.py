"""Multi-head attention as one function of its weights; `functional` exports it.

It looks up `nn.functional` when it is called, so that it uses what a program has put there.
"""

from __future__ import annotations

import math

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_program


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in `num_heads` heads. See `nn.MultiheadAttention`.

    Args:
        query, key, value: (L, N, E), (S, N, Ek), (S, N, Ev), or without N.
        static_k, static_v: (N * num_heads, S, E / num_heads), used instead of projections.

    Returns:
        The output, (L, N, E), and with `need_weights` the weights, (N, L, S), else None.
    """
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, embed_dim = query.shape
    heads = (batch, num_heads, embed_dim // num_heads)
    # scaled_dot_product_attention makes a causal mask of its own where nothing else is masked.
    is_causal = _is_only_causal(is_causal, attn_mask, key_padding_mask, need_weights)
    attn_mask, key_padding_mask = _additive_masks(
        None if is_causal else attn_mask, key_padding_mask, query.dtype
    )
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if use_separate_proj_weight:
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _in_projection(query, key, value, *weights, *biases)
    else:
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _check_attn_mask(attn_mask, length, key.shape[0], batch * num_heads)

    if bias_k is not None and bias_v is not None:
        for name, given in (("key", static_k), ("value", static_v)):
            if given is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k = rushlight.cat([k, bias_k.repeat(1, batch, 1)])
        v = rushlight.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _one_more_key(attn_mask, key_padding_mask)
    q = _split_heads(q, heads)
    k = _split_heads(k, heads) if static_k is None else _check_static(static_k, "static_k", heads)
    v = _split_heads(v, heads) if static_v is None else _check_static(static_v, "static_v", heads)
    if add_zero_attn:
        zeros = k.new_zeros((k.size(0), 1, k.size(2)))
        k, v = rushlight.cat([k, zeros], 1), rushlight.cat([v, zeros], 1)
        attn_mask, key_padding_mask = _one_more_key(attn_mask, key_padding_mask)
    attn_mask = _merge_masks(attn_mask, key_padding_mask, heads, k.size(1))

    attend = _attend_with_weights if need_weights else _attend
    output, weights = attend(q, k, v, attn_mask, dropout_p if training else 0.0, heads, is_causal)
    output = rushlight.nn.functional.linear(output, out_proj_weight, out_proj_bias)
    output = output.view(length, batch, output.size(1))
    if weights is not None:
        weights = weights.unflatten(0, heads[:2])
        weights = weights.mean(dim=1) if average_attn_weights else weights
    if not batched:
        output = output.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return output, weights


def _is_only_causal(is_causal, attn_mask, key_padding_mask, need_weights):
    """Is the mask the causal one and nothing else, so that it need not be read?"""
    if is_causal and attn_mask is None:
        raise RuntimeError("attn_mask: is needed with is_causal=True, which only describes it")
    return is_causal and key_padding_mask is None and not need_weights


def _additive_masks(attn_mask, key_padding_mask, dtype):
    """Both masks as numbers to add to the scores."""
    padding = _canonical_mask(
        mask=key_padding_mask,
        mask_name="key_padding_mask",
        other_type=_none_or_dtype(attn_mask),
        other_name="attn_mask",
        target_type=dtype,
    )
    mask = _canonical_mask(
        mask=attn_mask,
        mask_name="attn_mask",
        other_type=None,
        other_name="",
        target_type=dtype,
        check_other=False,
    )
    return mask, padding


def _attend(q, k, v, mask, dropout_p, heads, is_causal):
    """The output, (L * N, E), of (N * num_heads, L, size), and None for the weights."""
    batch, num_heads, head_dim = heads
    length = q.size(1)
    q, k, v = (t.reshape(batch, num_heads, t.size(1), head_dim) for t in (q, k, v))
    if mask is not None:
        one_for_all = mask.size(0) == 1
        mask = mask.unsqueeze(0) if one_for_all else mask.unflatten(0, (batch, num_heads))
    attention = rushlight.nn.functional.scaled_dot_product_attention
    output = attention(q, k, v, mask, dropout_p, is_causal)
    return output.permute(2, 0, 1, 3).reshape(length * batch, num_heads * head_dim), None


def _attend_with_weights(q, k, v, mask, dropout_p, heads, is_causal):
    """The output, (L * N, E), and the weights of each head, (N * num_heads, L, S)."""
    F = rushlight.nn.functional
    batch, num_heads, head_dim = heads
    q = q * math.sqrt(1.0 / head_dim)
    if mask is None:
        scores = rushlight.bmm(q, k.transpose(-2, -1))
    else:
        scores = rushlight.baddbmm(mask, q, k.transpose(-2, -1))
    weights = F.softmax(scores, dim=-1)
    if dropout_p > 0.0:
        weights = F.dropout(weights, p=dropout_p)
    output = rushlight.bmm(weights, v).transpose(0, 1)
    output = output.reshape(q.size(1) * batch, num_heads * head_dim)
    return output, weights


def _split_heads(t, heads):
    """(S, N, E) as (N * num_heads, S, E / num_heads)."""
    batch, num_heads, head_dim = heads
    return t.reshape(t.shape[0], batch * num_heads, head_dim).transpose(0, 1)


def _check_static(t, name, heads):
    batch, num_heads, head_dim = heads
    if t.size(0) != batch * num_heads or t.size(2) != head_dim:
        raise AssertionError(
            f"{name}: expected ({batch * num_heads}, *, {head_dim}) but got {tuple(t.shape)}"
        )
    return t


def _one_more_key(attn_mask, key_padding_mask):
    """The masks with a column for a key that is always attended to."""
    F = rushlight.nn.functional
    if attn_mask is not None:
        attn_mask = F.pad(attn_mask, (0, 1))
    if key_padding_mask is not None:
        key_padding_mask = F.pad(key_padding_mask, (0, 1))
    return attn_mask, key_padding_mask


def _check_attn_mask(attn_mask, length, keys, rows):
    """The mask with a dim for batch and heads."""
    if attn_mask is None:
        return None
    if attn_mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask: expected 2 or 3 dims but got {attn_mask.dim()}")
    expected = (length, keys) if attn_mask.dim() == 2 else (rows, length, keys)
    if tuple(attn_mask.shape) != expected:
        raise RuntimeError(f"attn_mask: expected shape {expected} but got {tuple(attn_mask.shape)}")
    return attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask


def _merge_masks(attn_mask, key_padding_mask, heads, keys):
    if key_padding_mask is None:
        return attn_mask
    batch, num_heads, _ = heads
    if tuple(key_padding_mask.shape) != (batch, keys):
        raise AssertionError(
            f"key_padding_mask: expected shape {(batch, keys)} but got "
            f"{tuple(key_padding_mask.shape)}"
        )
    padding = key_padding_mask.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1)
    padding = padding.reshape(batch * num_heads, 1, keys)
    return padding if attn_mask is None else attn_mask + padding


def _check_sizes(query, key, value, embed_dim_to_check, num_heads, separate):
    embed_dim = query.shape[-1]
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"query: expected size {embed_dim_to_check} but got {embed_dim}")
    if embed_dim % num_heads:
        raise AssertionError(f"embed_dim: {embed_dim} is not divisible by num_heads={num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key and value: lengths and batches {tuple(key.shape[:2])} and "
            f"{tuple(value.shape[:2])} differ"
        )
    if not separate and key.shape != value.shape:
        raise AssertionError(
            f"key and value: shapes {tuple(key.shape)} and {tuple(value.shape)} differ"
        )


def _in_projection_packed(q, k, v, w, b=None):
    """Queries, keys and values projected by the three parts of one weight."""
    F = rushlight.nn.functional
    embed_dim = q.size(-1)
    if q is k and k is v:  # self-attention: one product
        return F.linear(q, w, b).chunk(3, -1)
    if k is v:
        w_q, w_kv = w.split([embed_dim, embed_dim * 2])
        b_q, b_kv = (None, None) if b is None else b.split([embed_dim, embed_dim * 2])
        return (F.linear(q, w_q, b_q), *F.linear(k, w_kv, b_kv).chunk(2, -1))
    biases = (None,) * 3 if b is None else b.chunk(3)
    return tuple(F.linear(t, *wb) for t, wb in zip((q, k, v), zip(w.chunk(3), biases)))


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """Queries, keys and values projected by three weights."""
    F = rushlight.nn.functional
    sizes = (q.size(-1), k.size(-1), v.size(-1))
    for name, weight, size in zip("qkv", (w_q, w_k, w_v), sizes):
        if tuple(weight.shape) != (sizes[0], size):
            raise AssertionError(
                f"{name}_proj_weight: expected shape {(sizes[0], size)} but got "
                f"{tuple(weight.shape)}"
            )
    return F.linear(q, w_q, b_q), F.linear(k, w_k, b_k), F.linear(v, w_v, b_v)


def _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the inputs have a batch dim; AssertionError where they do not fit together."""
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(f"query: expected 2 or 3 dims but got {dims}")
    kind = f"For {'batched' if dims == 3 else 'unbatched'} ({dims}-D) `query`, expected"
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"{kind} `key` and `value` to be {dims}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(
            f"{kind} `key_padding_mask` to be `None` or {dims - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"{kind} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
                "instead"
            )
        if dims == 2 and attn_mask.dim() == 3:
            expected = (num_heads, query.shape[0], key.shape[0])
            if tuple(attn_mask.shape) != expected:
                raise AssertionError(
                    f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}"
                )
    return dims == 3


def _none_or_dtype(input):
    return None if input is None else input.dtype


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """The mask as numbers to add: minus infinity where a bool mask is True.

    Args:
        other_type: the dtype of the mask that goes with it, or None: with `check_other` another
            dtype warns.
    """
    if mask is None:
        return None
    if mask.dtype != rushlight.bool and not mask.is_floating_point():
        raise AssertionError(f"{mask_name}: expected bool or floating point but got {mask.dtype}")
    if check_other and other_type is not None and mask.dtype != other_type:
        warn_program(
            f"Support for mismatched {mask_name} and {other_name} is deprecated: {mask.dtype} and "
            f"{other_type}; give both the same dtype"
        )
    if mask.is_floating_point():
        return mask
    return rushlight.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)
