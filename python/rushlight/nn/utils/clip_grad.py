"""Bounding gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]

_tensor_or_tensors = Tensor | Iterable[Tensor]  # in annotations of libraries


def _no_grad(func):
    """A decorator: run without recording."""
    return rushlight.no_grad()(func)


def _grads(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [param.grad for param in parameters if param.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """The norm of all tensors as if they were one vector.

    Args:
        error_if_nonfinite: raise RuntimeError if it is nan or infinite.
        foreach: accepted.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if len(tensors) == 0:
        return rushlight.tensor(0.0)
    norm_type = float(norm_type)
    with rushlight.no_grad():
        device = tensors[0].device
        norms = [rushlight.linalg.vector_norm(t, norm_type).to(device) for t in tensors]
        total = rushlight.linalg.vector_norm(rushlight.stack(norms), norm_type)
    if error_if_nonfinite and not bool(rushlight.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is "
            f"{total.item()}, so nothing can be clipped by it; pass error_if_nonfinite=False to "
            "scale by it all the same"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: Any = None
) -> None:
    """Scale the gradients in place by max_norm / total_norm, if that is below 1."""
    with rushlight.no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        # Most gradients are small enough. Elsewhere a look at the number would wait for the device.
        if scale.device.type == "cpu" and scale == 1:
            return
        for grad in _grads(parameters):
            grad.mul_(scale.to(grad.device))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their norm together is at most `max_norm`.

    Returns:
        The norm that they had.
    """
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    else:
        parameters = list(parameters)  # a generator is gone through twice
        if not parameters:
            _warn_program("clip_grad_norm_: there are no parameters")
    total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated name of `clip_grad_norm_`."""
    _warn_program("nn.utils.clip_grad_norm is deprecated, use clip_grad_norm_", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Cut every element of the gradients to [-clip_value, clip_value], in place."""
    bound = float(clip_value)
    with rushlight.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-bound, max=bound)
