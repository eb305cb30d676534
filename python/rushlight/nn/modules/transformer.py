"""The Transformer: encoder and decoder layers, their stacks, and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor, _call_in_turn
from rushlight.nn import functional as F, init
from rushlight.nn.modules._fused import FUSED
from rushlight.nn.modules.activation import GELU, MultiheadAttention, ReLU
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import LayerNorm
from rushlight.types import Device, _dtype

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    """(sz, sz): minus infinity above the diagonal, zeros on it and below."""
    full = rushlight.full((sz, sz), float("-inf"), dtype=dtype, device=device)
    return rushlight.triu(full, diagonal=1)


def _get_seq_len(src, batch_first):
    if src.dim() == 2:
        return src.size(0)
    return src.size(1 if batch_first else 0)


def _get_clones(module, n):
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(activation):
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation: expected relu or gelu but got {activation}")


def _detect_is_causal_mask(mask, is_causal=None, size=None):
    """Whether `mask` is the causal mask, unless `is_causal` says it."""
    if is_causal is not None or mask is None:
        return is_causal is True
    size = mask.size(-2) if size is None else size
    causal = _generate_square_subsequent_mask(size, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _canonical_masks(src, name, mask, padding):
    """Both masks of an encoder as numbers to add to the attention's logits."""
    padding = F._canonical_mask(
        mask=padding,
        mask_name="src_key_padding_mask",
        other_type=F._none_or_dtype(mask),
        other_name=name,
        target_type=src.dtype,
    )
    mask = F._canonical_mask(
        mask=mask,
        mask_name=name,
        other_type=None,
        other_name="",
        target_type=src.dtype,
        check_other=False,
    )
    return mask, padding


class _Layer(Module):
    """What encoder and decoder layers share.

    The blocks are attention, once or twice, and a feed-forward network; each has a norm and a
    dropout of its own.
    """

    __constants__: list[str] = ["norm_first"]
    _attentions = ()

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Callable[..., Any] | Module | str = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **factory}
        for name in self._attentions:
            self.add_module(name, MultiheadAttention(d_model, nhead, **attention))
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        blocks = range(1, len(self._attentions) + 2)
        for i in blocks:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            self.add_module(f"norm{i}", norm)
        for i in blocks:
            self.add_module(f"dropout{i}", Dropout(dropout))
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        self.activation = activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation: Any = F.relu

    def _feed_forward(self, x):
        hidden = _call_in_turn(FUSED, (self.linear1, self.activation), x)
        return self.linear2(self.dropout(hidden))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout1(x)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with dropout, residual and layer norm.

    Args:
        d_model: size of the features.
        nhead: number of attention heads.
        dim_feedforward: size inside the feed-forward network.
        activation: "relu", "gelu" or a function.
        norm_first: normalize before each block, not after.

    Vaswani et al., "Attention Is All You Need", 2017.
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        masks = (*_canonical_masks(src, "src_mask", src_mask, src_key_padding_mask), is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *masks)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, *masks))
        return self.norm2(x + self._ff_block(x))

    def _has_fast_path(self):
        """Whether PyTorch has a fast path for a layer of such settings."""
        attention = self.self_attn
        return (
            not self.norm_first
            and attention.batch_first
            and attention._qkv_same_embed_dim
            and attention.in_proj_bias is not None
            and attention.num_heads % 2 == 0
            and self.norm1.eps == self.norm2.eps
            and (self.activation in (F.relu, F.gelu) or isinstance(self.activation, (ReLU, GELU)))
        )

    def _ff_block(self, x):
        return self.dropout2(self._feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    Args: as `TransformerEncoderLayer`.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        x = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x):
        return self.dropout3(self._feed_forward(x))


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of `encoder_layer`, and `norm` at the end.

    Args:
        enable_nested_tensor: in inference, give zeros (before `norm`) for what
            `src_key_padding_mask` hides, as PyTorch does where its fast path leaves it out.
        mask_check: do so only if the mask hides nothing but ends of sequences.
    """

    __constants__: list[str] = ["norm"]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        mask, src_key_padding_mask = _canonical_masks(src, "mask", mask, src_key_padding_mask)
        if mask is not None:
            batch_first = getattr(self.layers[0].self_attn, "batch_first", False)
            is_causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, batch_first))
        padding = None if mask is not None else self._left_out(src, src_key_padding_mask)
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=bool(is_causal),
                src_key_padding_mask=src_key_padding_mask,
            )
        if padding is not None:
            output = output.masked_fill(padding.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _left_out(self, src, padding):
        """What PyTorch's fast path leaves out of the computation: None where it is not taken."""
        first = self.layers[0]
        if (
            padding is None
            or src.dim() != 3
            or not self.enable_nested_tensor
            or not isinstance(first, TransformerEncoderLayer)
            or first.training
            or rushlight.is_autocast_enabled()
            or not rushlight.backends.mha.get_fastpath_enabled()
            or not first._has_fast_path()
        ):
            return None
        weights = [
            *first.self_attn.parameters(), *first.norm1.parameters(), *first.norm2.parameters(),
            *first.linear1.parameters(), *first.linear2.parameters(),
        ]  # fmt: skip
        if rushlight._C._records() and any(t.requires_grad for t in (src, *weights)):
            return None
        hidden = padding != 0
        if self.mask_check and bool((hidden[:, :-1] & ~hidden[:, 1:]).any()):
            return None
        return hidden


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of `decoder_layer`, and `norm` at the end."""

    __constants__: list[str] = ["norm"]

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        if tgt_mask is not None:
            batch_first = self.layers[0].self_attn.batch_first
            length = _get_seq_len(tgt, batch_first)
            tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias: as `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: depths of the stacks.
        custom_encoder, custom_decoder: used instead of the stacks.

    Shape:
        (S, N, E) and (T, N, E) to (T, N, E); batch first on demand. Weights with more than one
        dim start Xavier uniform.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        layer += (batch_first, norm_first, bias)
        norm = {"eps": layer_norm_eps, "bias": bias, **factory}
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            encoder_layer = TransformerEncoderLayer(*layer, **factory)
            self.encoder: Any = TransformerEncoder(
                encoder_layer, num_encoder_layers, LayerNorm(d_model, **norm)
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*layer, **factory)
            self.decoder: Any = TransformerDecoder(
                decoder_layer, num_decoder_layers, LayerNorm(d_model, **norm)
            )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self):
        for param in self.parameters():
            if param.dim() > 1:
                init.xavier_uniform_(param)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError(
                f"src and tgt: batch sizes {src.size(batch_dim)} and {tgt.size(batch_dim)} differ"
            )
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(
                f"src and tgt: feature sizes {src.size(-1)} and {tgt.size(-1)} must equal "
                f"d_model={self.d_model}"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device = None, dtype: _dtype | None = None
    ) -> Tensor:
        """(sz, sz): minus infinity above the diagonal, zeros on it and below."""
        return _generate_square_subsequent_mask(sz, device, dtype)
