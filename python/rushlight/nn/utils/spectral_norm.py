"""Weights divided by their largest singular value, the older form with hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.parameter import Parameter, UninitializedParameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight.nn.modules.module import Module

    _T = TypeVar("_T", bound="Module")

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


def as_matrix(weight: Tensor, dim: int) -> Any:
    """The weight with `dim` as rows and everything else as columns."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.size(0), -1)


def output_dim(module: Module) -> Any:
    """The dim of a weight that counts its outputs."""
    transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
    return 1 if isinstance(module, transposed) else 0


class SpectralNorm:
    """The hook that computes the weight before each forward."""

    _version = 1  # version 1 holds v as a buffer, too

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations: must be positive but got {n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        weight = getattr(module, self.name + "_orig")
        u = getattr(module, self.name + "_u")
        v = getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with rushlight.no_grad():
                for _ in range(self.n_power_iterations):
                    F.normalize(rushlight.mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                    F.normalize(rushlight.mv(matrix, v), dim=0, eps=self.eps, out=u)
            # The buffers change in the next forward; backward needs these values.
            u, v = u.clone(), v.clone()
        return weight / rushlight.dot(u, rushlight.mv(matrix, v))

    def remove(self, module: Module) -> None:
        with rushlight.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        delattr(module, self.name + "_u")
        delattr(module, self.name + "_v")
        delattr(module, self.name + "_orig")
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"spectral_norm: parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "spectral_norm: the module may not have uninitialized parameters. Run it once first"
            )
        with rushlight.no_grad():
            rows, columns = as_matrix(weight, dim).size()
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormLoadStateDictPreHook:
    """Makes the v of files before version 1, which have u and the divided weight in its place."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
        strict: bool, missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        del unexpected_keys, error_msgs
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        key = prefix + self.fn.name
        if version is not None and version >= 1:
            return
        new = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if version is None and new and key not in state_dict:
            return
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        with rushlight.no_grad():
            original, weight = state_dict[key + "_orig"], state_dict.pop(key)
            sigma = (original / weight).mean()
            matrix, u = as_matrix(original, self.fn.dim), state_dict[key + "_u"]
            # u is W v / |W v|, and u^T W v is sigma.
            v = rushlight.mv(rushlight.linalg.pinv(matrix), u)
            state_dict[key + "_v"] = v * (sigma / rushlight.dot(u, rushlight.mv(matrix, v)))


class SpectralNormStateDictHook:
    """Writes the version into the metadata of a state_dict."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __call__(
        self, module: Module, state_dict: dict[str, Any], prefix: str, local_metadata: Any
    ) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"spectral_norm: unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: _T,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> _T:
    """Divide a weight by its largest singular value, estimated by power iteration.

    `parametrizations.spectral_norm` is the newer form.

    Args:
        n_power_iterations: steps per forward in training.
        eps: least norm.
        dim: the dim of outputs; None finds it.

    Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.
    """
    dim = output_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: _T, name: str = "weight") -> _T:
    """Make the weight an ordinary parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for key, hook in module._state_dict_hooks.items():
        if isinstance(hook, SpectralNormStateDictHook) and hook.fn.name == name:
            del module._state_dict_hooks[key]
            break
    for key, wrapped in module._load_state_dict_pre_hooks.items():
        hook = wrapped.hook
        if isinstance(hook, SpectralNormLoadStateDictPreHook) and hook.fn.name == name:
            del module._load_state_dict_pre_hooks[key]
            break
    return module
