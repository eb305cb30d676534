"""Layers of quantized tensors as functions of their own."""

from __future__ import annotations

from rushlight._numpy_names import take_numpy_names
from rushlight._quantized._tensor import QuantizedTensor, dequantize, quantize_per_tensor
from rushlight.nn import functional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor


def _check(name, input):
    if not isinstance(input, QuantizedTensor):
        raise RuntimeError(f"quantized_{name}: expected a quantized tensor, but got {input.dtype}")


def _pool(name, input, *arguments):
    _check(name, input)
    kernel_size, stride, padding, dilation, ceil_mode = arguments
    pool = getattr(functional, name)
    return pool(input, kernel_size, stride or None, padding, dilation, ceil_mode)


def quantized_max_pool1d(
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest of each window of a quantized tensor, quantized as it is.

    Example:
        >>> x = torch.quantize_per_tensor(torch.tensor([[0.0, 3.0]]), 1.5, 3, torch.quint8)
        >>> torch.quantized_max_pool1d(x, [2]).dequantize()
        tensor([[3.]])
    """
    return _pool("max_pool1d", input, kernel_size, stride, padding, dilation, ceil_mode)


def quantized_max_pool2d(
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest of each window of a quantized tensor, quantized as it is.

    Example:
        >>> x = torch.quantize_per_tensor(torch.eye(2).reshape(1, 1, 2, 2), 1.0, 3, torch.quint8)
        >>> torch.quantized_max_pool2d(x, [2, 2]).dequantize()
        tensor([[[[1.]]]])
    """
    return _pool("max_pool2d", input, kernel_size, stride, padding, dilation, ceil_mode)


def quantized_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """Normalizes the channels of a quantized tensor by a given mean and variance.

    Args:
        weight, bias: factor and summand for each channel, or None.
        output_scale, output_zero_point: how the result is quantized.

    Example:
        >>> x = torch.quantize_per_tensor(torch.ones(1, 1, 1, 2), 1.0, 3, torch.quint8)
        >>> zero, one = torch.zeros(1), torch.ones(1)
        >>> torch.quantized_batch_norm(x, one, one, zero, one, 0.0, 0.5, 2).dequantize()
        tensor([[[[2., 2.]]]])
    """
    _check("batch_norm", input)
    numbers = functional.batch_norm(dequantize(input), mean, var, weight, bias, eps=eps)
    return quantize_per_tensor(numbers, output_scale, output_zero_point, input.dtype)


take_numpy_names(globals(), "quantized_batch_norm quantized_max_pool1d quantized_max_pool2d")
