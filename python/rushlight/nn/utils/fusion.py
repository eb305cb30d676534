"""A batch norm in evaluation mode made part of the layer before it."""

from __future__ import annotations

import copy

import rushlight
from rushlight import Tensor
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight.nn import Module
    from rushlight.nn.modules.batchnorm import _BatchNorm

    _T = TypeVar("_T", bound=Module)

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _require_eval(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("fusion: only possible in evaluation mode")


def fuse_conv_bn_eval(conv: _T, bn: _BatchNorm, transpose: bool = False) -> _T:
    """A convolution that does what `conv` and then `bn` do."""
    _require_eval(conv, bn)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fusion: bn has no running statistics")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused convolution; None stands for bias 0, scale 1, shift 0."""
    weight_dtype = conv_w.dtype
    bias_dtype = conv_b.dtype if conv_b is not None else weight_dtype
    conv_b = rushlight.zeros_like(bn_rm) if conv_b is None else conv_b
    bn_w = rushlight.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = rushlight.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = bn_w * rushlight.rsqrt(bn_rv + bn_eps)
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(dtype=weight_dtype)
    bias = ((conv_b - bn_rm) * scale + bn_b).to(dtype=bias_dtype)
    return (
        Parameter(weight, conv_w.requires_grad),
        Parameter(bias, conv_b.requires_grad),
    )


def fuse_linear_bn_eval(linear: _T, bn: _BatchNorm) -> _T:
    """A linear layer that does what `linear` and then `bn` do."""
    _require_eval(linear, bn)
    fused = copy.deepcopy(linear)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"fusion: {linear.out_features} outputs of the linear layer but {bn.num_features} "
            "features of bn"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused linear layer."""
    linear_b = rushlight.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * rushlight.rsqrt(bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(dtype=linear_w.dtype)
    bias = ((linear_b - bn_rm) * scale + bn_b).to(dtype=linear_b.dtype)
    return (
        Parameter(weight, linear_w.requires_grad),
        Parameter(bias, linear_b.requires_grad),
    )
