"""The Transformer: encoder and decoder layers, their stacks, and both together."""

import copy

import rushlight
from rushlight import _call_in_turn
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules._fused import FUSED
from rushlight.nn.modules.activation import GELU, MultiheadAttention, ReLU
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import LayerNorm

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


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward block and the activation."""

    __constants__ = ["norm_first"]

    def _set_activation(self, activation):
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        self.activation = activation

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _feed_forward(self, x):
        hidden = _call_in_turn(FUSED, (self.linear1, self.activation), x)
        return self.linear2(self.dropout(hidden))

    def _self_attention(self, x, attn_mask, key_padding_mask, is_causal):
        return self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]


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

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **factory
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self._set_activation(activation)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        src_key_padding_mask = F._canonical_mask(
            mask=src_key_padding_mask,
            mask_name="src_key_padding_mask",
            other_type=F._none_or_dtype(src_mask),
            other_name="src_mask",
            target_type=src.dtype,
        )
        src_mask = F._canonical_mask(
            mask=src_mask,
            mask_name="src_mask",
            other_type=None,
            other_name="",
            target_type=src.dtype,
            check_other=False,
        )
        x = src
        masks = (src_mask, src_key_padding_mask, is_causal)
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

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(self._self_attention(x, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x):
        return self.dropout2(self._feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    Args: as `TransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        attention = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **factory}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self._set_activation(activation)

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
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

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self.dropout1(self._self_attention(x, attn_mask, key_padding_mask, is_causal))

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

    __constants__ = ["norm"]

    def __init__(
        self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True
    ):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        src_key_padding_mask = F._canonical_mask(
            mask=src_key_padding_mask,
            mask_name="src_key_padding_mask",
            other_type=F._none_or_dtype(mask),
            other_name="mask",
            target_type=src.dtype,
        )
        mask = F._canonical_mask(
            mask=mask,
            mask_name="mask",
            other_type=None,
            other_name="",
            target_type=src.dtype,
            check_other=False,
        )
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
        if rushlight.is_grad_enabled() and any(t.requires_grad for t in (src, *weights)):
            return None
        hidden = padding != 0
        if self.mask_check and bool((hidden[:, :-1] & ~hidden[:, 1:]).any()):
            return None
        return hidden


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of `decoder_layer`, and `norm` at the end."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
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
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        layer += (batch_first, norm_first, bias)
        norm = {"eps": layer_norm_eps, "bias": bias, **factory}
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            encoder_layer = TransformerEncoderLayer(*layer, **factory)
            self.encoder = TransformerEncoder(
                encoder_layer, num_encoder_layers, LayerNorm(d_model, **norm)
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*layer, **factory)
            self.decoder = TransformerDecoder(
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
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
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
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """(sz, sz): minus infinity above the diagonal, zeros on it and below."""
        return _generate_square_subsequent_mask(sz, device, dtype)
