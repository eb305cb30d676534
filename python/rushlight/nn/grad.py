"""Gradients of convolutions as functions of their own."""

import rushlight
from rushlight.nn.modules.utils import _pair, _single, _triple


def _conv_input(name, input_size, weight, grad_output, arguments):
    from rushlight.nn import functional as F

    if input_size is None:
        raise ValueError(f"{name}: input_size is needed")
    with rushlight.enable_grad():
        input = grad_output.new_zeros(input_size).requires_grad_()
        output = getattr(F, name)(input, weight.detach(), None, *arguments)
    return rushlight.autograd.grad(output, input, grad_output)[0]


def _conv_weight(name, input, weight_size, grad_output, arguments):
    from rushlight.nn import functional as F

    with rushlight.enable_grad():
        weight = grad_output.new_zeros(weight_size).requires_grad_()
        output = getattr(F, name)(input.detach(), weight, None, *arguments)
    return rushlight.autograd.grad(output, weight, grad_output)[0]


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d with respect to its input, which has size `input_size`."""
    arguments = (_single(stride), _single(padding), _single(dilation), groups)
    return _conv_input("conv1d", input_size, weight, grad_output, arguments)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d with respect to its weight, which has size `weight_size`."""
    arguments = (_single(stride), _single(padding), _single(dilation), groups)
    return _conv_weight("conv1d", input, weight_size, grad_output, arguments)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d with respect to its input, which has size `input_size`."""
    arguments = (_pair(stride), _pair(padding), _pair(dilation), groups)
    return _conv_input("conv2d", input_size, weight, grad_output, arguments)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d with respect to its weight, which has size `weight_size`."""
    arguments = (_pair(stride), _pair(padding), _pair(dilation), groups)
    return _conv_weight("conv2d", input, weight_size, grad_output, arguments)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d with respect to its input, which has size `input_size`."""
    arguments = (_triple(stride), _triple(padding), _triple(dilation), groups)
    return _conv_input("conv3d", input_size, weight, grad_output, arguments)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d with respect to its weight, which has size `weight_size`."""
    arguments = (_triple(stride), _triple(padding), _triple(dilation), groups)
    return _conv_weight("conv3d", input, weight_size, grad_output, arguments)
