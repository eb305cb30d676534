"""Gradients of convolutions as functions of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._shown_name import shown_as as _shown_as
from rushlight.nn import functional as F


def _conv_input(dims, input_size, weight, grad_output, *options):
    if input_size is None:
        raise ValueError(f"conv{dims}d: input_size is needed")
    with rushlight.enable_grad():
        input = grad_output.new_zeros(input_size).requires_grad_()
        output = getattr(F, f"conv{dims}d")(input, weight, None, *options)
    return _gradient(output, input, grad_output, weight)


def _conv_weight(dims, input, weight_size, grad_output, *options):
    with rushlight.enable_grad():
        weight = grad_output.new_zeros(weight_size).requires_grad_()
        output = getattr(F, f"conv{dims}d")(input, weight, None, *options)
    return _gradient(output, weight, grad_output, input)


@_shown_as("ConvolutionBackwardBackward0")
def _gradient(output, by, grad_output, other):
    """The gradient, recorded if what it depends on requires gradients of its own."""
    recorded = grad_output.requires_grad or other.requires_grad
    create_graph = recorded and rushlight._C._records()
    return rushlight.autograd.grad(output, by, grad_output, create_graph=create_graph)[0]


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """The gradient of conv1d with respect to its input, which has size `input_size`."""
    return _conv_input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """The gradient of conv1d with respect to its weight, which has size `weight_size`."""
    return _conv_weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """The gradient of conv2d with respect to its input, which has size `input_size`."""
    return _conv_input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """The gradient of conv2d with respect to its weight, which has size `weight_size`."""
    return _conv_weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """The gradient of conv3d with respect to its input, which has size `input_size`."""
    return _conv_input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Any:
    """The gradient of conv3d with respect to its weight, which has size `weight_size`."""
    return _conv_weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
