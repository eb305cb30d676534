"""Attention and an encoder's layer as one call, by the names under which copies of torch's modules
call them where no gradient is needed.
"""

from __future__ import annotations

import math

import rushlight
from rushlight.nested._tensor import NestedTensor, make
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _masks(mask, mask_type, batch, heads):
    """(attn_mask, key_padding_mask) of a mask of a type: 0, 1, or 2 for one of each head."""
    if mask is None:
        return None, None
    mask = mask.to(rushlight.bool)
    if mask_type == 0:
        return mask, None
    if mask_type == 1:
        return None, mask
    if mask_type == 2:
        return mask.expand(batch, heads, *mask.shape[-2:]).flatten(0, 1), None
    raise RuntimeError(f"_native_multi_head_attention: mask_type is 0, 1 or 2, not {mask_type}")


def _native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor | None,
    proj_weight: Tensor,
    proj_bias: Tensor | None,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`nn.functional.multi_head_attention_forward` of batches first, nested ones too.

    Args:
        mask: True, or minus infinity, where nothing is looked at.
        mask_type: 0: the mask is of queries and keys; 1: of the keys of each example; 2: of both.
    """
    if isinstance(query, NestedTensor):
        if mask is not None:
            raise RuntimeError("_native_multi_head_attention: nested tensors have no mask")
        rows = zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
        results = [
            _native_multi_head_attention(
                *(t.unsqueeze(0) for t in row), embed_dim, num_head, qkv_weight, qkv_bias,
                proj_weight, proj_bias, None, need_weights, average_attn_weights,
            )
            for row in rows
        ]  # fmt: skip
        outputs = make([out[0] for out, _ in results], query._jagged, query._ragged)
        if not need_weights:
            return outputs, None
        return outputs, make([w[0] for _, w in results], False).to_padded_tensor(0.0)
    attn_mask, key_padding_mask = _masks(mask, mask_type, len(query), num_head)
    output, weights = F.multi_head_attention_forward(
        *(t.transpose(0, 1) for t in (query, key, value)), embed_dim, num_head, qkv_weight,
        qkv_bias, None, None, False, 0.0, proj_weight, proj_bias, training=False,
        key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
        average_attn_weights=average_attn_weights,
    )  # fmt: skip
    return output.transpose(0, 1), weights


def _transformer_encoder_layer_fwd(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """`nn.TransformerEncoderLayer` of these weights, without dropout."""

    def attend(x):
        return _native_multi_head_attention(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type,
        )[0]  # fmt: skip

    def feed(x):
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def first_norm(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(first_norm(src))
        return x + feed(second_norm(x))
    x = first_norm(src + attend(src))
    return second_norm(x + feed(x))


def _transform_bias_rescale_qkv(
    qkv: Tensor, qkv_bias: Tensor, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of each head, (B, num_heads, T, E / num_heads), of their projections
    side by side; queries divided by the root of the last size.
    """
    query, key, value = (
        t.unflatten(-1, (num_heads, -1)).transpose(1, 2) for t in (qkv + qkv_bias).chunk(3, -1)
    )
    return query / math.sqrt(query.shape[-1]), key, value
