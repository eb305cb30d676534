"""Attention of parts that `ao.quantization` observes one by one."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules import activation as _activation
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.quantized import FloatFunctional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class MultiheadAttention(_activation.MultiheadAttention):
    """`nn.MultiheadAttention` whose projections `ao.quantization` can observe.

    Products of queries, keys and values are computed in float32.

    Args: as `nn.MultiheadAttention` has them.
    """

    _FLOAT_MODULE = _activation.MultiheadAttention

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        from rushlight.ao.quantization.stubs import DeQuantStub, QuantStub

        options = {"device": device, "dtype": dtype}
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim,
            batch_first, **options,
        )  # fmt: skip
        self.linear_Q: Linear = Linear(self.embed_dim, self.embed_dim, bias=bias, **options)
        self.linear_K: Linear = Linear(self.kdim, self.embed_dim, bias=bias, **options)
        self.linear_V: Linear = Linear(self.vdim, self.embed_dim, bias=bias, **options)
        self.out_proj: Any = Linear(self.embed_dim, self.embed_dim, bias=bias, **options)
        self.q_scaling_product: FloatFunctional = FloatFunctional()
        self.quant_attn_output: QuantStub = QuantStub()
        self.quant_attn_output_weights: QuantStub = QuantStub()
        self.dequant_q: DeQuantStub = DeQuantStub()
        self.dequant_k: DeQuantStub = DeQuantStub()
        self.dequant_v: DeQuantStub = DeQuantStub()

    def _get_name(self):
        return "QuantizableMultiheadAttention"

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
        if is_causal:
            raise AssertionError("quantizable.MultiheadAttention: give attn_mask, not is_causal")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        length, batch, _ = query.shape
        q = self.q_scaling_product.mul_scalar(self.linear_Q(query), self.head_dim**-0.5)
        k, v = self._with_bias(self.linear_K(key)), self._with_bias(self.linear_V(value), "bias_v")
        q, k, v = self.dequant_q(q), self.dequant_k(k), self.dequant_v(v)
        q, k, v = (
            x.reshape(-1, batch * self.num_heads, self.head_dim).transpose(0, 1) for x in (q, k, v)
        )
        extra = int(self.bias_k is not None) + int(self.add_zero_attn)
        if self.add_zero_attn:
            zeros = k.new_zeros(k.size(0), 1, k.size(2))
            k, v = rushlight.cat([k, zeros], 1), rushlight.cat([v, zeros], 1)
        scores = rushlight.bmm(q, k.transpose(1, 2))
        scores = self._masked(scores, attn_mask, key_padding_mask, batch, extra)
        weights = F.dropout(F.softmax(scores, -1), self.dropout, self.training)
        result = rushlight.bmm(weights, v).transpose(0, 1).reshape(length, batch, self.embed_dim)
        result = result.transpose(0, 1) if self.batch_first else result
        result = self.out_proj(self.quant_attn_output(result))
        weights = self.quant_attn_output_weights(weights)
        if not need_weights:
            return result, None
        weights = weights.view(batch, self.num_heads, length, k.size(1))
        return result, weights.mean(1) if average_attn_weights else weights

    def _with_bias(self, x, name="bias_k"):
        bias = getattr(self, name)
        if bias is None:
            return x
        if x.is_quantized and not bias.is_quantized:
            bias = rushlight.quantize_per_tensor(bias, x.q_scale(), x.q_zero_point(), x.dtype)
        return rushlight.cat([x, bias.repeat(1, x.size(1), 1)])

    def _masked(self, scores, attn_mask, key_padding_mask, batch, extra):
        """Add the masks to scores (batch * heads, length, source), or exclude what they name."""
        if attn_mask is not None:
            mask = attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask
            mask = F.pad(mask.bool() if mask.dtype is rushlight.uint8 else mask, (0, extra))
            if mask.dtype is rushlight.bool:
                scores = scores.masked_fill(mask, float("-inf"))
            else:
                scores = scores + mask
        if key_padding_mask is not None:
            mask = F.pad(key_padding_mask.bool(), (0, extra))
            parts = scores.view(batch, self.num_heads, *scores.shape[1:])
            parts = parts.masked_fill(mask[:, None, None], float("-inf"))
            scores = parts.view(scores.shape)
        return scores

    @classmethod
    def from_float(cls, other: Module) -> Self:
        """Return what replaces an `nn.MultiheadAttention`, observed where that has a qconfig."""
        layer = cls(
            other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
            other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim,
            other.batch_first,
        )  # fmt: skip
        weights, biases = _projections(other)
        for own, weight, bias in zip(layer._projection_layers(), weights, biases, strict=True):
            own.weight = rushlight.nn.Parameter(weight.detach())
            own.bias = None if bias is None else rushlight.nn.Parameter(bias.detach())
        layer.out_proj.weight, layer.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        layer.bias_k, layer.bias_v = other.bias_k, other.bias_v
        layer.eval()
        if getattr(other, "qconfig", None) is None:
            return layer
        from rushlight.ao.quantization.quantize import prepare

        layer.qconfig = other.qconfig
        return prepare(layer, inplace=True)

    def _projection_layers(self):
        return self.linear_Q, self.linear_K, self.linear_V

    @classmethod
    def from_observed(cls, other: Module) -> Self:
        """Refused: `quantized.MultiheadAttention.from_observed` makes a quantized layer."""
        raise NotImplementedError(
            "quantizable.MultiheadAttention: quantized.MultiheadAttention.from_observed takes it"
        )

    def dequantize(self) -> Module:
        """Return an `nn.MultiheadAttention` with the numbers that quantized weights stand for."""
        layer = _activation.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, self._own(self.linear_Q)[1] is not None,
            self.bias_k is not None, self.add_zero_attn, self.kdim, self.vdim, self.batch_first,
        )  # fmt: skip
        pairs = [self._own(own) for own in self._projection_layers()]
        weights, biases = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        parameter = rushlight.nn.Parameter
        with rushlight.no_grad():
            if layer.in_proj_weight is not None:
                layer.in_proj_weight.copy_(rushlight.cat(weights))
            else:
                for name, weight in zip("qkv", weights):
                    getattr(layer, f"{name}_proj_weight").copy_(weight)
            if biases[0] is not None:
                layer.in_proj_bias.copy_(rushlight.cat(biases))
        weight, bias = self._own(self.out_proj)
        layer.out_proj.weight = parameter(weight)
        layer.out_proj.bias = None if bias is None else parameter(bias)
        for name in ("bias_k", "bias_v"):
            value = getattr(self, name)
            if value is not None:
                setattr(layer, name, parameter(value.dequantize().detach()))
        return layer

    def _own(self, layer):
        """Weight and bias of a projection, quantized or not, in float32."""
        weight, bias = layer.weight, layer.bias
        if callable(weight) and not isinstance(weight, Tensor):
            weight, bias = weight().dequantize(), bias()
        return weight.detach(), None if bias is None else bias.detach()


def _projections(layer):
    """The weights and biases of queries, keys and values."""
    if layer._qkv_same_embed_dim:
        weights = layer.in_proj_weight.chunk(3)
    else:
        weights = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    biases = [None] * 3 if layer.in_proj_bias is None else layer.in_proj_bias.chunk(3)
    return weights, biases
