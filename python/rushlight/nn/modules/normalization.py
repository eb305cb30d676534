"""Normalizations within a sample: layer, group, RMS and local response."""

from __future__ import annotations

import numbers
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F, init
from rushlight.nn.modules._printing import _options
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta."""

    __constants__: list[str] = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Local response normalization of (N, C, H, W) with the window of the older Lua library.

    Where `LocalResponseNorm` ends a window, this one keeps channel 0: trained networks rely on it.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        reach = (self.size + 1) // 2  # the window is reach - 1 channels to both sides
        squares = input.square()
        padded = F.pad(squares, (0, 0, 0, 0, reach - 1, reach - 1))
        total = padded.unfold(1, 2 * reach - 1, 1).sum(-1)
        later = rushlight.arange(input.size(1), device=input.device) >= reach
        total = total + squares[:, :1] * later.to(input.dtype).view(-1, 1, 1)
        return input * (total * (self.alpha / self.size) + self.k).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _as_shape(normalized_shape):
    if isinstance(normalized_shape, numbers.Integral):
        normalized_shape = (normalized_shape,)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims.

    Args:
        normalized_shape: sizes of the dims to normalize over.
        eps: added to the variance.
        elementwise_affine: whether weight and bias are learned.
        bias: whether bias is.

    Ba et al., "Layer Normalization", 2016.
    """

    __constants__: list[str] = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.normalized_shape: tuple[Any, ...] = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape, affine = self.normalized_shape, elementwise_affine
        weight = Parameter(rushlight.empty(shape, **factory)) if affine else None
        bias = Parameter(rushlight.empty(shape, **factory)) if affine and bias else None
        self.register_parameter("weight", weight)
        self.register_parameter("bias", bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over groups of channels of each sample.

    Args:
        num_groups: into how many groups the channels are divided.
        num_channels: channels of the input.

    Wu and He, "Group Normalization", 2018.
    """

    __constants__: list[str] = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        factory = {"device": device, "dtype": dtype}
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        weight = Parameter(rushlight.empty(num_channels, **factory)) if affine else None
        bias = Parameter(rushlight.empty(num_channels, **factory)) if affine and bias else None
        self.register_parameter("weight", weight)
        self.register_parameter("bias", bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dims.

    Args:
        normalized_shape: sizes of the dims to normalize over.
        eps: added to the mean square; None is the dtype's smallest step.
        elementwise_affine: whether weight is learned.

    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    """

    __constants__: list[str] = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[Any, ...] = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape, factory = self.normalized_shape, {"device": device, "dtype": dtype}
        weight = Parameter(rushlight.empty(shape, **factory)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {_options(self, 'eps', 'elementwise_affine')}"
