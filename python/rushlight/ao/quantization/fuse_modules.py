"""Makes one module of layers that a quantized model computes together."""

from __future__ import annotations

import copy

from rushlight import nn
from rushlight._set_module import set_module
from rushlight.ao.nn import intrinsic as _intrinsic
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
    """Return a `Linear` that includes the batch norm, in evaluation only."""
    _same_mode(linear, bn)
    if is_qat:
        raise NotImplementedError("fuse_modules_qat: Linear with BatchNorm1d is not supported")
    return fuse_linear_bn_eval(linear, bn)


def _check_norm(bn, channels):
    if bn.num_features != channels or not bn.affine or not bn.track_running_stats:
        raise AssertionError(
            f"fuse_modules_qat: the batch norm must have {channels} features, be affine and track "
            f"running statistics, got {bn}"
        )


def _methods():
    methods: dict[tuple[type[Module], ...], Callable[..., Module]] = {}
    for conv, (norm, _, _, with_relu) in _CONVOLUTIONS.items():
        methods[conv, norm] = fuse_conv_bn
        methods[conv, norm, nn.ReLU] = fuse_conv_bn_relu
        methods[conv, nn.ReLU] = _without_mode(with_relu)
    methods[nn.Linear, nn.BatchNorm1d] = fuse_linear_bn
    methods[nn.Linear, nn.ReLU] = _without_mode(_intrinsic.LinearReLU)
    return methods


def _without_mode(kind):
    return lambda is_qat, *layers: kind(*layers)


def fuse_known_modules(
    mod_list: Sequence[Module], is_qat: bool, additional_fuser_method_mapping: Any = None
) -> list[Module]:
    """Return the fused module and as many `Identity` as it replaces besides the first."""
    kinds = tuple(type(layer) for layer in mod_list)
    method = {**_methods(), **(additional_fuser_method_mapping or {})}.get(kinds)
    if method is None:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise NotImplementedError(f"fuse_modules: cannot fuse {names}")
    fused = method(is_qat, *mod_list)
    for hook in mod_list[0]._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    for hook in mod_list[-1]._forward_hooks.values():
        fused.register_forward_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    mod_list[-1]._forward_hooks.clear()
    rest = [nn.Identity().train(mod_list[0].training) for _ in mod_list[1:]]
    return [fused, *rest]


def _fuse(model, modules_to_fuse, is_qat, inplace, fuser_func, config):
    if not inplace:
        model = copy.deepcopy(model)
    groups = modules_to_fuse
    if all(isinstance(name, str) for name in groups):
        groups = [groups]
    methods = (config or {}).get("additional_fuser_method_mapping", {})
    for names in groups:
        layers = fuser_func([model.get_submodule(name) for name in names], is_qat, methods)
        for name, layer in zip(names, layers, strict=True):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, layer)
    return model


def fuse_modules(
    model: Module,
    modules_to_fuse: Sequence[Any],
    inplace: bool = False,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Module:
    """Return the model with layers fused, for quantization after training; batch norms disappear.

    Args:
        model: in evaluation mode where a batch norm is fused.
        modules_to_fuse: names of layers in a row, or a list of such lists: a convolution with
            BatchNorm, with ReLU or with both, `Linear` with BatchNorm1d or ReLU.
        inplace: change the model itself.

    Example:
        >>> from rushlight.ao.quantization import fuse_modules
        >>> model = rushlight.nn.Sequential(rushlight.nn.Linear(2, 3), rushlight.nn.ReLU()).eval()
        >>> type(fuse_modules(model, ["0", "1"])[0]).__name__
        'LinearReLU'
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Module,
    modules_to_fuse: Sequence[Any],
    inplace: bool = False,
    fuser_func: Callable[..., Any] = fuse_known_modules,
    fuse_custom_config_dict: dict[str, Any] | None = None,
) -> Module:
    """As `fuse_modules`, for training: batch norms stay, in a module with their convolution."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)


__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_known_modules", "fuse_linear_bn", "fuse_modules",
    "fuse_modules_qat",
]  # fmt: skip


set_module("rushlight.ao.quantization", fuse_linear_bn)
