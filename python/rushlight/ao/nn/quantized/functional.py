"""Functions of quantized tensors with quantized weights."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import quint8
from rushlight._ignored import warn_program as _warn_program
from rushlight._quantized._tensor import QuantizedTensor, dequantize
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool2d",
    "avg_pool3d",
    "celu",
    "clamp",
    "conv1d",
    "conv2d",
    "conv3d",
    "elu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "interpolate",
    "leaky_relu",
    "linear",
    "max_pool1d",
    "max_pool2d",
    "threshold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


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


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`nn.functional.avg_pool2d` of a quantized tensor, quantized as that is."""
    _check("avg_pool2d", input=input)
    return F.avg_pool2d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`nn.functional.avg_pool3d` of a quantized tensor, quantized as that is."""
    _check("avg_pool3d", input=input)
    return F.avg_pool3d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """`nn.functional.adaptive_avg_pool2d` of a quantized tensor, quantized as that is."""
    _check("adaptive_avg_pool2d", input=input)
    return F.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """`nn.functional.adaptive_avg_pool3d` of a quantized tensor, quantized as that is."""
    _check("adaptive_avg_pool3d", input=input)
    return F.adaptive_avg_pool3d(input, output_size)


def _max_pool(name, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    _check(name, input=input)
    if return_indices:
        raise NotImplementedError(f"{name}: return_indices is not supported of quantized tensors")
    return getattr(F, name)(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """`nn.functional.max_pool1d` of a quantized tensor, quantized as that is."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool("max_pool1d", input, *options)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    """`nn.functional.max_pool2d` of a quantized tensor, quantized as that is."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool("max_pool2d", input, *options)


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`nn.functional.interpolate` of a quantized tensor, quantized as that is.

    Args:
        mode: "nearest" or "bilinear".
    """
    _check("interpolate", input=input)
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The older name of `interpolate`."""
    _warn_program("upsample is deprecated; use interpolate instead")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
    _warn_program("upsample_bilinear is deprecated; use interpolate instead")
    return interpolate(input, size, scale_factor, "bilinear", True)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest"."""
    _warn_program("upsample_nearest is deprecated; use interpolate instead")
    return interpolate(input, size, scale_factor, "nearest")


def _requantized(name, input, scale, zero_point, *args):
    _check(name, input=input)
    numbers = getattr(F, name)(dequantize(input), *args)
    return rushlight.quantize_per_tensor(numbers, scale, zero_point, input.dtype)


def hardswish(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """`nn.functional.hardswish` of a quantized tensor.

    Args:
        scale, zero_point: how the result is quantized.
    """
    return _requantized("hardswish", input, scale, zero_point)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """`nn.functional.elu` of a quantized tensor.

    Args:
        scale, zero_point: how the result is quantized.
    """
    return _requantized("elu", input, scale, zero_point, alpha)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """`nn.functional.celu` of a quantized tensor.

    Args:
        scale, zero_point: how the result is quantized.
    """
    return _requantized("celu", input, scale, zero_point, alpha)


def leaky_relu(
    input: Tensor,
    negative_slope: float = 0.01,
    inplace: bool = False,
    scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:
    """`nn.functional.leaky_relu` of a quantized tensor.

    Args:
        inplace: change the tensor itself, where scale and zero point are not given.
        scale, zero_point: how the result is quantized; as the input by default.
    """
    if scale is not None and zero_point is not None:
        if inplace:
            raise AssertionError("leaky_relu: inplace keeps the scale; give scale or inplace")
        return _requantized("leaky_relu", input, scale, zero_point, negative_slope)
    _check("leaky_relu", input=input)
    result = F.leaky_relu(input, negative_slope)
    return input.copy_(result) if inplace else result


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """`nn.functional.hardtanh` of a quantized tensor, quantized as that is."""
    _check("hardtanh", input=input)
    result = F.hardtanh(input, min_val, max_val)
    return input.copy_(result) if inplace else result


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`nn.functional.hardsigmoid` of a quantized tensor, in steps of 1/256."""
    _check("hardsigmoid", input=input)
    result = F.hardsigmoid(input)
    return input.copy_(result) if inplace else result


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`nn.functional.threshold` of a quantized tensor, quantized as that is."""
    if threshold is None or value is None:
        raise ValueError("threshold: threshold and value must be given")
    return _requantized("threshold", input, input.q_scale(), input.q_zero_point(), threshold, value)


def clamp(input: Tensor, min_: float, max_: float) -> Tensor:
    """The numbers of a quantized tensor between two bounds, quantized as that is."""
    _check("clamp", input=input)
    return rushlight.clamp(input, min_, max_)
