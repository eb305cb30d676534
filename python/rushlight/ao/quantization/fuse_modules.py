"""Makes one module of layers that a quantized model computes together."""

from __future__ import annotations

import copy

from rushlight import nn
from rushlight.ao.quantization.fuser_method_mappings import (
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_linear_bn,
    get_fuser_method,
)
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def fuse_known_modules(
    mod_list: Sequence[Module], is_qat: bool, additional_fuser_method_mapping: Any = None
) -> list[Module]:
    """Return the fused module and as many `Identity` as it replaces besides the first."""
    kinds = [_parametrize.type_before_parametrizations(layer) for layer in mod_list]
    fused = get_fuser_method(kinds, additional_fuser_method_mapping)(is_qat, *mod_list)
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
