"""Weights as length times direction, the older form with hooks."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._ignored import older_name as _older_name
from rushlight.nn.parameter import Parameter, UninitializedParameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight.nn.modules.module import Module

    _T = TypeVar("_T", bound="Module")

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """The 2-norm over all dims but `dim`, which keeps its size; over all dims if it is -1."""
    if dim == -1:
        return v.norm(2)
    dim %= v.dim()
    others = [d for d in range(v.dim()) if d != dim]
    return v.norm(2, others, keepdim=True) if others else v.abs()


class WeightNorm:
    """The hook that computes the weight before each forward."""

    def __init__(self, name: str, dim: int) -> None:
        self.name = name
        self.dim: int = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        g = getattr(module, self.name + "_g")
        v = getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int) -> WeightNorm:
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "weight_norm: the module must not have uninitialized parameters. Run it once first"
            )
        del module._parameters[name]
        length = norm_except_dim(weight.detach(), hook.dim)
        module.register_parameter(name + "_g", Parameter(length))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        with rushlight.no_grad():
            weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: _T, name: str = "weight", dim: int = 0) -> _T:
    """Replace a weight by its length `name_g` along `dim` and its direction `name_v`.

    `parametrizations.weight_norm` is the newer form.

    Salimans and Kingma, "Weight Normalization", 2016.
    """
    _older_name("nn.utils.weight_norm", "nn.utils.parametrizations.weight_norm")
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: _T, name: str = "weight") -> _T:
    """Make the weight an ordinary parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
