"""MultiheadAttention; `activation` exports it, where programs expect it."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F, init
from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype


class MultiheadAttention(Module):
    """softmax(Q K^T / sqrt(d)) V in `num_heads` heads, with learned projections before and after.

    Args:
        embed_dim: size of the queries and of the output; each head has embed_dim / num_heads.
        dropout: probability with which attention weights are dropped in training.
        add_bias_kv: add a learned vector to keys and values.
        add_zero_attn: add a vector of zeros to keys and values.
        kdim, vdim: sizes of keys and values, if not `embed_dim`.
        batch_first: (N, L, E) instead of (L, N, E).

    Vaswani et al., "Attention Is All You Need", 2017.
    """

    bias_k: Parameter | None
    bias_v: Parameter | None

    __constants__: list[str] = ["batch_first"]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: Any = None,
        vdim: Any = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads: must be positive but got {embed_dim} and {num_heads}"
            )
        self.embed_dim = embed_dim
        self.kdim: Any = kdim if kdim is not None else embed_dim
        self.vdim: Any = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim: int = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim: {embed_dim} is not divisible by num_heads={num_heads}"
            )
        factory = {"device": device, "dtype": dtype}

        def parameter(*shape):
            return Parameter(rushlight.empty(shape, **factory))

        if self._qkv_same_embed_dim:
            self.in_proj_weight: Parameter = parameter(3 * embed_dim, embed_dim)
            self.register_parameter("q_proj_weight", None)
            self.register_parameter("k_proj_weight", None)
            self.register_parameter("v_proj_weight", None)
        else:
            self.q_proj_weight: Parameter = parameter(embed_dim, embed_dim)
            self.k_proj_weight: Parameter = parameter(embed_dim, self.kdim)
            self.v_proj_weight: Parameter = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj: NonDynamicallyQuantizableLinear = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias, **factory
        )
        if add_bias_kv:
            self.bias_k = parameter(1, 1, embed_dim)
            self.bias_v = parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query` to `key` and `value`.

        Args:
            key_padding_mask: (N, S), True at keys to ignore, or numbers to add to the scores.
            need_weights: also return the attention weights; without, it is faster.
            attn_mask: (L, S) or (N * num_heads, L, S), True where attention is not allowed, or
                numbers to add to the scores.
            average_attn_weights: whether the weights are averaged over the heads.
            is_causal: says that `attn_mask` is the causal mask.

        Returns:
            The output and, or None, the weights.
        """
        transpose = self.batch_first and query.dim() == 3
        if transpose:
            # The same tensor stays the same tensor: self-attention projects it once.
            swapped = {id(t): t.transpose(1, 0) for t in (query, key, value)}
            query, key, value = (swapped[id(t)] for t in (query, key, value))
        projections = {}
        if not self._qkv_same_embed_dim:
            projections = {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **projections,
        )
        return (output.transpose(1, 0) if transpose else output), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, (N, num_heads, L, S), and its kind: 0 attention, 1 padding, 2 both."""
        kind = None
        merged = None
        if key_padding_mask is not None:
            kind, merged = 1, key_padding_mask
        if attn_mask is not None:
            batch, length, _ = query.shape
            kind = 2
            if attn_mask.dim() == 3:
                merged = attn_mask.view(batch, -1, length, length)
            else:
                merged = attn_mask.view(1, 1, length, length)
                merged = merged.expand(batch, self.num_heads, -1, -1)
            if key_padding_mask is not None:
                padding = key_padding_mask.view(batch, 1, 1, length)
                merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, kind
