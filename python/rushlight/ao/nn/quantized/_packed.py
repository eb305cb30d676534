"""Quantized weights, and the products with them."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8
from rushlight._quantized._tensor import (
    _PER_TENSOR_SCHEMES,
    QuantizedTensor,
    choose_qparams,
    per_channel_affine_float_qparams,
    plain,
)
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def quantize_weight(weight: Tensor, observer: Module) -> QuantizedTensor:
    """Return a weight quantized as an observer that has seen it says."""
    weight = weight.detach().float()
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in _PER_TENSOR_SCHEMES:
        quantized = rushlight.quantize_per_tensor(weight, float(scale), int(zero_point), qint8)
    else:
        floats = observer.qscheme is per_channel_affine_float_qparams
        dtype = observer.dtype if floats else qint8
        quantized = rushlight.quantize_per_channel(
            weight, scale, zero_point, observer.ch_axis, dtype
        )
    observer = getattr(observer, "activation_post_process", observer)
    integers = plain(quantized)
    integers.clamp_(observer.quant_min, observer.quant_max)
    return quantized


class PackedWeight:
    """An int8 weight (out, in) and a bias, in the form that products with bytes take."""

    def __init__(self, weight: QuantizedTensor, bias: Tensor | None) -> None:
        if not isinstance(weight, QuantizedTensor) or weight.dtype is not qint8:
            raise RuntimeError(f"a packed weight must be of qint8, got {weight.dtype}")
        if weight._quantizer.axis not in (None, 0):
            raise RuntimeError(
                f"a packed weight has its channels at dim 0, got axis {weight._quantizer.axis}"
            )
        self.weight = weight
        self.bias = None if bias is None else bias.detach().float()
        self.integers = plain(weight)
        self.sums = self.integers.sum(1, dtype=rushlight.int32)
        self.scale, zero_point = weight._quantizer.broadcast(1)
        self.zero_point = zero_point if rushlight.as_tensor(zero_point).any() else None

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedWeight, (self.weight, self.bias)  # the integers share the weight's memory

    def product(self, x: Tensor, scale: float, zero_point: int) -> Tensor:
        """Return float32 (n, out) of bytes (n, in) that stand for scale * (x - zero_point)."""
        sums = rushlight._int_mm(x, self.integers.t())
        if zero_point:
            sums -= zero_point * self.sums
        if self.zero_point is not None:
            own = x.sum(1, keepdim=True, dtype=rushlight.int32) - x.size(1) * zero_point
            sums = sums - own * self.zero_point
        result = sums.float() * (self.scale * scale)
        return result if self.bias is None else result + self.bias

    def dynamic(self, x: Tensor, reduce_range: bool) -> Tensor:
        """Return the product with float32 x (n, in), quantized by its own range."""
        if not x.numel():
            return rushlight.zeros(x.size(0), self.sums.numel()) + (
                0.0 if self.bias is None else self.bias
            )
        scale, zero_point = choose_qparams(*x.aminmax(), 0, 127 if reduce_range else 255)
        integer = int(zero_point)
        steps = (x * (1.0 / scale.float()) + integer).round_()
        return self.product(steps.clamp_(0, 255).to(rushlight.uint8), scale.item(), integer)


_HALF_MAX = 65504.0  # of float16


class Float16Weight:
    """A float16 weight (out, in) and a bias: products are computed in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight.detach().float().clamp(-_HALF_MAX, _HALF_MAX).to(rushlight.float16)
        self.bias = None if bias is None else bias.detach().float()

    def dynamic(self, x: Tensor, reduce_range: bool) -> Tensor:
        """Return the product with float32 x (n, in)."""
        del reduce_range  # the input is not rounded
        return F.linear(x, self.weight.float(), self.bias)


class WeightedQuantizedModule(Module):
    """Layers with a quantized weight, a bias in float32, and the result's scale and zero point."""

    @classmethod
    def from_reference(cls, ref_module: Module, output_scale: float, output_zero_point: int) -> Any:
        """Return the layer with the quantized weight of a reference layer.

        Args:
            ref_module: a layer of ao.nn.quantized.reference.
            output_scale, output_zero_point: of the results.
        """
        raise NotImplementedError(
            f"{cls.__name__}.from_reference: of {type(ref_module).__name__}, with scale "
            f"{output_scale} and zero point {output_zero_point}: a class of layers defines it"
        )

    def weight(self) -> QuantizedTensor:
        """Return the quantized weight."""
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        """Return the bias in float32."""
        return self._weight_bias()[1]

    def _set_result(self, scale: Any, zero_point: Any) -> None:
        self.scale: float = float(scale)
        self.zero_point: int = int(zero_point)

    def _save_result(self, destination, prefix):
        destination[prefix + "scale"] = rushlight.tensor(self.scale)
        destination[prefix + "zero_point"] = rushlight.tensor(self.zero_point)

    def _load_result(self, state_dict, prefix):
        self._set_result(state_dict.pop(prefix + "scale"), state_dict.pop(prefix + "zero_point"))


def observed_weight(layer: Module, use_precomputed: bool) -> tuple[Tensor, Any, Module]:
    """Return weight, bias and weight observer of a layer that `convert` replaces."""
    source = layer
    if not hasattr(layer, "weight_fake_quant") and not hasattr(layer, "weight"):
        source = layer[0]  # of a fused pair
    weight, bias = source.weight, source.bias
    if hasattr(layer, "fused_parameters"):
        weight, bias = layer.fused_parameters()
    observer = getattr(source, "weight_fake_quant", None) or layer.qconfig.weight()
    if not use_precomputed:
        observer(weight)
    if observer.dtype is not qint8:
        raise AssertionError(
            f"{type(layer).__name__}: the weight's observer must be of qint8, got {observer.dtype}"
        )
    return quantize_weight(weight, observer), bias, source
