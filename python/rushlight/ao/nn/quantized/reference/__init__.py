"""Layers in float32 whose weights are rounded to quantized steps: what other backends lower.

Their weights are parameters in float32; `get_quantized_weight` gives them quantized by the scale
and zero point of `weight_qparams`, and `forward` computes with the numbers that those stand for.
"""

from __future__ import annotations

from rushlight import Tensor
from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.nn.quantized.reference._recurrent import GRU, LSTM, GRUCell, LSTMCell, RNNCell
from rushlight.ao.nn.quantized.reference._weights import ReferenceQuantizedModule
from rushlight.nn import functional as F
from rushlight.nn.modules import conv as _conv, linear as _linear, sparse as _sparse
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class Linear(_linear.Linear, ReferenceQuantizedModule):
    """`nn.Linear` whose weight is rounded to quantized steps."""

    _IS_REFERENCE = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias_: bool = True,
        device: Any = None,
        dtype: Any = None,
        weight_qparams: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self):
        return "QuantizedLinear(Reference)"

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear: Module, weight_qparams: dict[str, Any]) -> Self:
        """Return such a layer with the parameters of an `nn.Linear`."""
        source = float_linear
        layer = cls(
            source.in_features, source.out_features, source.bias is not None,
            device=source.weight.device, dtype=source.weight.dtype, weight_qparams=weight_qparams,
        )  # fmt: skip
        return layer._take_parameters(source)


class _ReferenceConv(ReferenceQuantizedModule):
    """Convolutions whose weight is rounded to quantized steps."""

    _IS_REFERENCE = True

    def __init__(
        self, *args: Any, weight_qparams: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._init_weight_qparams(weight_qparams, kwargs.get("device"))

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    def forward(self, x: Tensor) -> Tensor:
        return self._conv_forward(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_conv: Module, weight_qparams: dict[str, Any]) -> Self:
        """Return such a layer with the parameters of a convolution."""
        names = ["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation",
                 "groups", "padding_mode"]  # fmt: skip
        if float_conv.transposed:
            names.append("output_padding")
        layer = cls(
            **{name: getattr(float_conv, name) for name in names},
            bias=float_conv.bias is not None, device=float_conv.weight.device,
            dtype=float_conv.weight.dtype, weight_qparams=weight_qparams,
        )  # fmt: skip
        return layer._take_parameters(float_conv)


class Conv1d(_ReferenceConv, _conv.Conv1d):
    """`nn.Conv1d` whose weight is rounded to quantized steps."""


class Conv2d(_ReferenceConv, _conv.Conv2d):
    """`nn.Conv2d` whose weight is rounded to quantized steps."""


class Conv3d(_ReferenceConv, _conv.Conv3d):
    """`nn.Conv3d` whose weight is rounded to quantized steps."""


class _ReferenceConvTranspose(_ReferenceConv):
    """Transposed convolutions whose weight is rounded to quantized steps."""

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        dims = len(self.kernel_size)
        output_padding = self._output_padding(
            x, output_size, self.stride, self.padding, self.kernel_size, dims, self.dilation
        )
        convolve = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[dims]
        return convolve(
            x, self.get_weight(), self.bias, self.stride, self.padding, output_padding,
            self.groups, self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_ReferenceConvTranspose, _conv.ConvTranspose1d):
    """`nn.ConvTranspose1d` whose weight is rounded to quantized steps."""


class ConvTranspose2d(_ReferenceConvTranspose, _conv.ConvTranspose2d):
    """`nn.ConvTranspose2d` whose weight is rounded to quantized steps."""


class ConvTranspose3d(_ReferenceConvTranspose, _conv.ConvTranspose3d):
    """`nn.ConvTranspose3d` whose weight is rounded to quantized steps."""


class Embedding(ReferenceQuantizedModule, _sparse.Embedding):
    """`nn.Embedding` whose weight is rounded to quantized steps."""

    def __init__(
        self, *args: Any, weight_qparams: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._init_weight_qparams(weight_qparams, kwargs.get("device"))

    def _get_name(self):
        return "QuantizedEmbedding(Reference)"

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.get_weight(), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Module, weight_qparams: dict[str, Any]) -> Self:
        """Return such a layer with the weight of an `nn.Embedding`."""
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, mod.weight, device=mod.weight.device,
            dtype=mod.weight.dtype, weight_qparams=weight_qparams,
        )  # fmt: skip


class EmbeddingBag(ReferenceQuantizedModule, _sparse.EmbeddingBag):
    """`nn.EmbeddingBag` whose weight is rounded to quantized steps."""

    def __init__(
        self, *args: Any, weight_qparams: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._init_weight_qparams(weight_qparams, kwargs.get("device"))

    def _get_name(self):
        return "QuantizedEmbedding(Reference)"

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input, self.get_weight(), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_float(
        cls, mod: Module, weight_qparams: dict[str, Any], use_precomputed_fake_quant: bool = False
    ) -> Self:
        """Return such a layer with the weight of an `nn.EmbeddingBag`."""
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight, mod.include_last_offset,
            mod.padding_idx, device=mod.weight.device, dtype=mod.weight.dtype,
            weight_qparams=weight_qparams,
        )  # fmt: skip


__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "Embedding", "EmbeddingBag", "GRU", "GRUCell", "LSTM", "LSTMCell", "Linear", "RNNCell",
]  # fmt: skip

_add_modules(
    __name__,
    {
        "modules": "*",
        "modules.conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
        "modules.linear": "Linear",
        "modules.rnn": "ao.nn.quantized.reference._recurrent",
        "modules.sparse": "Embedding EmbeddingBag",
        "modules.utils": "ao.nn.quantized.reference._weights",
    },
)
