"""Functions of quantized tensors whose results have steps of their own: what graphs call."""

from __future__ import annotations

import rushlight
from rushlight._quantized._scalars import add_scalar, mul_scalar
from rushlight._quantized._tensor import dequantize, plain, quantize_per_tensor
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


def _binary(operation, scalar, relu):
    def function(
        a: Tensor, b: Any, output_scale: Any = None, output_zero_point: Any = None
    ) -> Tensor:
        if output_scale is None:  # b is a number
            result = scalar(a, b)
            return result.relu() if relu else result
        numbers = operation(dequantize(a), dequantize(b))
        numbers = numbers.relu() if relu else numbers
        return quantize_per_tensor(numbers, output_scale, output_zero_point, a.dtype)

    return function


add: Callable[..., Tensor] = _binary(rushlight.add, add_scalar, False)
add_relu: Callable[..., Tensor] = _binary(rushlight.add, add_scalar, True)
mul: Callable[..., Tensor] = _binary(rushlight.mul, mul_scalar, False)
mul_relu: Callable[..., Tensor] = _binary(rushlight.mul, mul_scalar, True)


def matmul(a: Tensor, b: Tensor, output_scale: Any, output_zero_point: Any) -> Tensor:
    """The matrix product of two quantized tensors."""
    numbers = rushlight.matmul(dequantize(a), dequantize(b))
    return quantize_per_tensor(numbers, output_scale, output_zero_point, a.dtype)


def _product(function, relu):
    def multiply(
        input: Tensor, weight: Tensor, output_scale: Any, output_zero_point: Any, **options: Any
    ) -> Tensor:
        numbers = function(dequantize(input), dequantize(weight), **options)
        numbers = numbers.relu() if relu else numbers
        return quantize_per_tensor(numbers, output_scale, output_zero_point, input.dtype)

    return multiply


conv1d: Callable[..., Tensor] = _product(F.conv1d, False)
conv1d_relu: Callable[..., Tensor] = _product(F.conv1d, True)
conv2d: Callable[..., Tensor] = _product(F.conv2d, False)
conv2d_relu: Callable[..., Tensor] = _product(F.conv2d, True)
conv3d: Callable[..., Tensor] = _product(F.conv3d, False)
conv3d_relu: Callable[..., Tensor] = _product(F.conv3d, True)
conv_transpose1d: Callable[..., Tensor] = _product(F.conv_transpose1d, False)
conv_transpose1d_relu: Callable[..., Tensor] = _product(F.conv_transpose1d, True)
conv_transpose2d: Callable[..., Tensor] = _product(F.conv_transpose2d, False)
conv_transpose2d_relu: Callable[..., Tensor] = _product(F.conv_transpose2d, True)
conv_transpose3d: Callable[..., Tensor] = _product(F.conv_transpose3d, False)
conv_transpose3d_relu: Callable[..., Tensor] = _product(F.conv_transpose3d, True)


def _packed(weight, bias):
    from rushlight.ao.nn.quantized._packed import PackedWeight

    return PackedWeight(weight, bias)


def _linear(relu):
    def multiply(
        input: Tensor, weight: Tensor, output_scale: Any, output_zero_point: Any,
        bias: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        rows = plain(input).reshape(-1, input.size(-1))
        numbers = _packed(weight, bias).product(rows, input.q_scale(), input.q_zero_point())
        numbers = numbers.reshape(*input.shape[:-1], -1)
        numbers = numbers.relu() if relu else numbers
        return quantize_per_tensor(numbers, output_scale, output_zero_point, input.dtype)

    return multiply


linear: Callable[..., Tensor] = _linear(False)
linear_relu: Callable[..., Tensor] = _linear(True)


def linear_dynamic(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`linear` of a float32 tensor that is rounded to 7 bits of its own range."""
    rows = input.detach().float().reshape(-1, input.size(-1))
    numbers = _packed(weight, bias).dynamic(rows, reduce_range=True)
    return numbers.reshape(*input.shape[:-1], -1).to(input.dtype)


def _of_float(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def apply(
        input: Tensor, *args: Any, output_scale: Any, output_zero_point: Any, **options: Any
    ) -> Tensor:
        numbers = function(dequantize(input), *args, **options)
        return quantize_per_tensor(numbers.detach(), output_scale, output_zero_point, input.dtype)

    return apply


elu: Callable[..., Tensor] = _of_float(F.elu)
hardswish: Callable[..., Tensor] = _of_float(F.hardswish)
leaky_relu: Callable[..., Tensor] = _of_float(F.leaky_relu)
layer_norm: Callable[..., Tensor] = _of_float(F.layer_norm)
instance_norm: Callable[..., Tensor] = _of_float(F.instance_norm)
group_norm: Callable[..., Tensor] = _of_float(F.group_norm)
dropout: Callable[..., Tensor] = _of_float(F.dropout)

# Generated code calls them by their names.
for _name, _function in list(globals().items()):
    if getattr(_function, "__module__", None) == __name__ and not _name.startswith("_"):
        _function.__name__ = _function.__qualname__ = _name
