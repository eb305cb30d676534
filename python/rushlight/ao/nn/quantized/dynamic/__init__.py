"""Layers of int8 weights whose inputs are quantized when they come."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8
from rushlight._module_paths import add_modules as _add_modules
from rushlight._quantized._tensor import choose_qparams
from rushlight.ao.nn import quantized as _quantized
from rushlight.ao.nn.intrinsic import LinearReLU as _LinearReLU
from rushlight.ao.nn.quantized._packed import quantize_weight
from rushlight.ao.nn.quantized.dynamic._recurrent import (
    GRU,
    LSTM,
    GRUCell,
    LSTMCell,
    RNNCell,
)
from rushlight.nn import functional as F
from rushlight.nn.modules import conv as _conv, linear as _linear
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class Linear(_quantized.Linear):
    """`nn.Linear` of an int8 weight, from a floating-point tensor to one of the same dtype.

    Each input is rounded to 7 bits of its own range, as by torch, and multiplied as bytes.

    Args:
        in_features, out_features: the sizes of the last dim.
        bias_: whether there is a bias.
        dtype: `qint8`, or `float16`, whose inputs are not rounded.
    """

    _version = 4
    _relu = False

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype)
        self.version = 4

    def forward(self, x: Tensor) -> Tensor:
        packed = self._packed_params._packed_params
        rows = x.detach().float().reshape(-1, self.in_features)
        result = packed.dynamic(rows, reduce_range=True)
        result = F.relu(result) if self._relu else result
        return result.reshape(*x.shape[:-1], self.out_features).to(x.dtype)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"dtype={self._packed_params.dtype}"
        ) + (f", qscheme={self.weight().qscheme()}" if self.weight().is_quantized else "")

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an `nn.Linear` with a qconfig."""
        qconfig = mod.qconfig
        if not qconfig:
            raise AssertionError("dynamic Linear.from_float: the layer has no qconfig")
        if type(mod) is _LinearReLU:
            mod = mod[0]
        if not isinstance(mod, _linear.Linear):
            raise AssertionError(f"dynamic Linear.from_float: expected Linear, got {type(mod)}")
        observer = qconfig.weight()
        if observer.dtype not in (qint8, rushlight.float16):
            raise RuntimeError(
                f"dynamic Linear: the weight's dtype must be qint8 or float16, got {observer.dtype}"
            )
        layer = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        if observer.dtype is qint8:
            observer = getattr(mod, "weight_fake_quant", None) or observer
            if not use_precomputed_fake_quant:
                observer(mod.weight)
            layer.set_weight_bias(quantize_weight(mod.weight, observer), mod.bias)
        else:
            layer.set_weight_bias(mod.weight.detach().float(), mod.bias)
        return layer

    @classmethod
    def from_reference(cls, ref_qlinear: Module) -> Self:
        """Return the layer with the quantized weight of a reference layer."""
        layer = cls(
            ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype
        )
        layer.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return layer


class _DynamicConv(_quantized._ConvNd):
    """Convolutions of int8 weights; each input is rounded to bytes of its own range."""

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        return self._convolve(_rounded(input, reduce_range), self.padding).to(input.dtype)

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces a convolution with a qconfig."""
        observer = mod.qconfig.weight()
        if not use_precomputed_fake_quant:
            observer(mod.weight)
        options = {name: getattr(mod, name) for name in cls._options}
        layer = cls(**options, bias=mod.bias is not None, padding_mode=mod.padding_mode)
        layer.set_weight_bias(quantize_weight(mod.weight, observer), mod.bias)
        return layer


def _rounded(x, reduce_range):
    """The numbers that 7 or 8 bits have for x in its own range."""
    if not x.numel():
        return x
    most = 127 if reduce_range else 255
    x = x.detach().float()
    scale, zero_point = choose_qparams(*x.aminmax(), 0, most)
    steps = (x / scale.float() + zero_point).round().clamp(0, most)
    return (steps - zero_point) * scale.float()


class Conv1d(_DynamicConv):
    """`nn.Conv1d` of an int8 weight, of floating-point tensors."""

    _float_class = _conv.Conv1d


class Conv2d(_DynamicConv):
    """`nn.Conv2d` of an int8 weight, of floating-point tensors."""

    _float_class = _conv.Conv2d


class Conv3d(_DynamicConv):
    """`nn.Conv3d` of an int8 weight, of floating-point tensors."""

    _float_class = _conv.Conv3d


class ConvTranspose1d(_DynamicConv, _quantized._ConvTransposeNd):
    """`nn.ConvTranspose1d` of an int8 weight, of floating-point tensors."""

    _float_class = _conv.ConvTranspose1d


class ConvTranspose2d(_DynamicConv, _quantized._ConvTransposeNd):
    """`nn.ConvTranspose2d` of an int8 weight, of floating-point tensors."""

    _float_class = _conv.ConvTranspose2d


class ConvTranspose3d(_DynamicConv, _quantized._ConvTransposeNd):
    """`nn.ConvTranspose3d` of an int8 weight, of floating-point tensors."""

    _float_class = _conv.ConvTranspose3d


__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "GRU",
    "GRUCell", "LSTM", "LSTMCell", "Linear", "RNNCell",
]  # fmt: skip

_add_modules(
    __name__,
    {
        "modules": "*",
        "modules.conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
        "modules.linear": "Linear",
        "modules.rnn": "ao.nn.quantized.dynamic._recurrent",
    },
)
