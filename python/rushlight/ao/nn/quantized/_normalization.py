"""Norms from a quantized tensor to one with a scale and zero point of its own."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._quantized._tensor import dequantize
from rushlight.ao.nn.quantized._activation import observed, set_result
from rushlight.nn import functional as F
from rushlight.nn.modules import (
    batchnorm as _batchnorm,
    instancenorm as _instancenorm,
    normalization as _norm,
)
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self


class _Norm:
    """A norm whose result has the scale and zero point of two buffers."""

    def _again(self, numbers, like):
        scale, zero_point = float(self.scale), int(self.zero_point)
        numbers = F.relu(numbers) if getattr(self, "_relu", False) else numbers
        return rushlight.quantize_per_tensor(numbers.detach(), scale, zero_point, like.dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self._again(super().forward(dequantize(input)), input)

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an observed norm."""
        return cls.from_reference(mod, *observed(mod))


class _BatchNorm(_Norm):
    """Batch norms, which use their running statistics."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, True, True, device=device, dtype=dtype)
        set_result(self, 1.0, 0, {"device": device})

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        numbers = F.batch_norm(
            dequantize(input), self.running_mean, self.running_var, self.weight, self.bias,
            eps=self.eps,
        )  # fmt: skip
        return self._again(numbers, input)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an observed batch norm, or one with a ReLU."""
        norm = mod if isinstance(mod, _batchnorm._BatchNorm) else mod[0]
        return cls.from_reference(norm, *observed(mod))

    @classmethod
    def from_reference(cls, bn: Module, output_scale: float, output_zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        layer = cls(bn.num_features, bn.eps, device=bn.weight.device)
        layer.weight, layer.bias = bn.weight, bn.bias
        layer.running_mean, layer.running_var = bn.running_mean, bn.running_var
        layer.scale = rushlight.as_tensor(output_scale)
        layer.zero_point = rushlight.as_tensor(output_zero_point)
        return layer


class BatchNorm2d(_BatchNorm, _batchnorm.BatchNorm2d):
    """`nn.BatchNorm2d` of a quantized tensor, with its running statistics."""


class BatchNorm3d(_BatchNorm, _batchnorm.BatchNorm3d):
    """`nn.BatchNorm3d` of a quantized tensor, with its running statistics."""


class LayerNorm(_Norm, _norm.LayerNorm):
    """`nn.LayerNorm` of a quantized tensor.

    Args:
        normalized_shape, eps, elementwise_affine: as of `nn.LayerNorm`.
        weight, bias: its parameters.
        scale, zero_point: how the result is quantized.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        weight: Tensor | None,
        bias: Tensor | None,
        scale: float,
        zero_point: int,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            normalized_shape, eps=eps, elementwise_affine=elementwise_affine, device=device,
            dtype=dtype,
        )  # fmt: skip
        self.weight = weight
        self.bias = bias
        set_result(self, scale, zero_point, {"device": device, "dtype": dtype})

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls(
            mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.elementwise_affine,
        )  # fmt: skip


class GroupNorm(_Norm, _norm.GroupNorm):
    """`nn.GroupNorm` of a quantized tensor.

    Args:
        num_groups, num_channels, eps, affine: as of `nn.GroupNorm`.
        weight, bias: its parameters.
        scale, zero_point: how the result is quantized.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        weight: Tensor | None,
        bias: Tensor | None,
        scale: float,
        zero_point: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        self.weight = weight
        self.bias = bias
        set_result(self, scale, zero_point, {"device": device, "dtype": dtype})

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls(
            mod.num_groups, mod.num_channels, mod.weight, mod.bias, float(scale), int(zero_point),
            mod.eps, mod.affine,
        )  # fmt: skip


class _InstanceNorm(_Norm):
    """Instance norms, by the statistics of each sample."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        num_features: int,
        weight: Tensor | None,
        bias: Tensor | None,
        scale: float,
        zero_point: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype
        )
        self.weight = weight
        self.bias = bias
        set_result(self, scale, zero_point, {"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        numbers = F.instance_norm(
            dequantize(input), weight=self.weight, bias=self.bias, eps=self.eps
        )
        return self._again(numbers, input)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls(
            mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps,
            mod.momentum, mod.affine, mod.track_running_stats,
        )  # fmt: skip


class InstanceNorm1d(_InstanceNorm, _instancenorm.InstanceNorm1d):
    """`nn.InstanceNorm1d` of a quantized tensor, by the statistics of each sample."""


class InstanceNorm2d(_InstanceNorm, _instancenorm.InstanceNorm2d):
    """`nn.InstanceNorm2d` of a quantized tensor, by the statistics of each sample."""


class InstanceNorm3d(_InstanceNorm, _instancenorm.InstanceNorm3d):
    """`nn.InstanceNorm3d` of a quantized tensor, by the statistics of each sample."""


__all__ = [
    "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm",
]  # fmt: skip
