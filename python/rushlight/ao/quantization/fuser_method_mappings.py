"""How layers in a row become one: the method for each row of classes."""

from __future__ import annotations

from rushlight import nn
from rushlight.ao.nn import intrinsic as _intrinsic
from rushlight.ao.quantization.utils import MatchAllNode
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_CONVOLUTIONS = {
    nn.Conv1d: (nn.BatchNorm1d, _intrinsic.ConvBn1d, _intrinsic.ConvBnReLU1d,
                _intrinsic.ConvReLU1d),
    nn.Conv2d: (nn.BatchNorm2d, _intrinsic.ConvBn2d, _intrinsic.ConvBnReLU2d,
                _intrinsic.ConvReLU2d),
    nn.Conv3d: (nn.BatchNorm3d, _intrinsic.ConvBn3d, _intrinsic.ConvBnReLU3d,
                _intrinsic.ConvReLU3d),
}  # fmt: skip


def _same_mode(*layers):
    if len({layer.training for layer in layers}) > 1:
        raise AssertionError("fuse_modules: some of the layers are in training mode, some are not")


def fuse_conv_bn(is_qat: bool, conv: Module, bn: Module) -> Module:
    """Return a convolution that includes the batch norm, for training both as one module."""
    _same_mode(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _check_norm(bn, conv.out_channels)
    return _CONVOLUTIONS[type(conv)][1](conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Module, bn: Module, relu: Module) -> Module:
    """Return convolution, batch norm and ReLU as one module."""
    _same_mode(conv, bn, relu)
    _, _, with_norm, without = _CONVOLUTIONS[type(conv)]
    if not is_qat:
        return without(fuse_conv_bn_eval(conv, bn), relu)
    _check_norm(bn, conv.out_channels)
    return with_norm(conv, bn, relu)


def fuse_linear_bn(is_qat: bool, linear: Module, bn: Module) -> Module:
    """Return a `Linear` that includes the batch norm, for training both as one module."""
    _same_mode(linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    _check_norm(bn, linear.out_features)
    return _intrinsic.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Module, bn: Module) -> Module:
    """Return a transposed convolution that includes the batch norm, in evaluation only."""
    _same_mode(convt, bn)
    if is_qat:
        raise NotImplementedError(
            "fuse_modules_qat: a transposed convolution with a batch norm is not trained as one"
        )
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _check_norm(bn, channels):
    if bn.num_features != channels or not bn.affine or not bn.track_running_stats:
        raise AssertionError(
            f"fuse_modules_qat: the batch norm must have {channels} features, be affine and track "
            f"running statistics, got {bn}"
        )


def _as_one(kind):
    """The method of a class that takes its layers as they are."""
    return lambda is_qat, *layers: kind(*layers)


def _methods():
    methods: dict[tuple[type[Module], ...], Callable[..., Module]] = {}
    for conv, (norm, _, _, with_relu) in _CONVOLUTIONS.items():
        methods[conv, norm] = fuse_conv_bn
        methods[conv, norm, nn.ReLU] = fuse_conv_bn_relu
        methods[conv, nn.ReLU] = _as_one(with_relu)
    methods[nn.Linear, nn.BatchNorm1d] = fuse_linear_bn
    methods[nn.Linear, nn.ReLU] = _as_one(_intrinsic.LinearReLU)
    methods[nn.BatchNorm2d, nn.ReLU] = _as_one(_intrinsic.BNReLU2d)
    methods[nn.BatchNorm3d, nn.ReLU] = _as_one(_intrinsic.BNReLU3d)
    methods[nn.ConvTranspose1d, nn.BatchNorm1d] = fuse_convtranspose_bn
    methods[nn.ConvTranspose2d, nn.BatchNorm2d] = fuse_convtranspose_bn
    methods[nn.ConvTranspose3d, nn.BatchNorm3d] = fuse_convtranspose_bn
    return methods


_DEFAULT_OP_LIST_TO_FUSER_METHOD: dict[Any, Any] = _methods()


def get_fuser_method(
    op_list: Sequence[Any], additional_fuser_method_mapping: dict[Any, Any] | None = None
) -> Callable[..., Any]:
    """Return the function (is_qat, *layers) that makes one module of layers of these classes.

    Args:
        additional_fuser_method_mapping: functions that go before the usual ones.

    Raises:
        NotImplementedError: there is none.
    """
    methods = {**_DEFAULT_OP_LIST_TO_FUSER_METHOD, **(additional_fuser_method_mapping or {})}
    method = methods.get(tuple(op_list))
    if method is None:
        names = ", ".join(getattr(kind, "__name__", str(kind)) for kind in op_list)
        raise NotImplementedError(f"fuse_modules: cannot fuse {names}")
    return method


def _matches(pattern, found):
    if pattern is MatchAllNode or pattern == found:
        return True
    if not isinstance(pattern, tuple) or not isinstance(found, tuple):
        return False
    return len(pattern) == len(found) and all(map(_matches, pattern, found))


def get_fuser_method_new(
    op_pattern: Any, fuser_method_mapping: dict[Any, Any]
) -> Callable[..., Any]:
    """Return the function that fuses what a pattern matched.

    Args:
        op_pattern: nested tuples of classes and functions, as matched.
        fuser_method_mapping: functions by pattern, where `MatchAllNode` stands for anything.
    """
    for pattern, method in fuser_method_mapping.items():
        if _matches(pattern, op_pattern):
            return method
    raise AssertionError(f"found no function that fuses {op_pattern}")


__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn",
    "get_fuser_method", "get_fuser_method_new",
]  # fmt: skip
