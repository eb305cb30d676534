"""Functions of quantized tensors with quantized weights."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import quint8
from rushlight._quantized._tensor import QuantizedTensor, dequantize
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["conv1d", "conv2d", "conv3d", "linear"]


def _check(name: str, **tensors: Any) -> None:
    for argument, tensor in tensors.items():
        if not isinstance(tensor, QuantizedTensor):
            kind = getattr(tensor, "dtype", type(tensor).__name__)
            raise RuntimeError(f"{name}: {argument} must be a quantized tensor, got {kind}")


def _convolution(name: str) -> Callable[..., Tensor]:
    def convolve(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        scale: float = 1.0,
        zero_point: int = 0,
        dtype: Any = quint8,
    ) -> Tensor:
        _check(name, input=input, weight=weight)
        if padding_mode != "zeros":
            raise NotImplementedError(f"{name}: only zero-padding is supported")
        numbers = getattr(F, name)(
            dequantize(input), dequantize(weight), bias, stride, padding, dilation, groups
        )
        return rushlight.quantize_per_tensor(numbers, scale, zero_point, dtype)

    convolve.__name__ = convolve.__qualname__ = name
    convolve.__doc__ = f"""`nn.functional.{name}` of a quantized tensor and weight.

    Args:
        bias: float32, or None.
        scale, zero_point, dtype: how the result is quantized.
    """
    return convolve


conv1d: Callable[..., Tensor] = _convolution("conv1d")
conv2d: Callable[..., Tensor] = _convolution("conv2d")
conv3d: Callable[..., Tensor] = _convolution("conv3d")


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:
    """`nn.functional.linear` of a quantized tensor and weight.

    Args:
        bias: float32, or None.
        scale, zero_point: how the result is quantized; as the input by default.
    """
    _check("linear", input=input, weight=weight)
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    numbers = F.linear(dequantize(input), dequantize(weight), bias)
    return rushlight.quantize_per_tensor(numbers, scale, zero_point, input.dtype)
