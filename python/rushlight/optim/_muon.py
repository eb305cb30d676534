"""Muon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.optim.optimizer import Optimizer, ParamsT, _arguments, _check_lr, _check_range

__all__ = ["Muon"]


def _update(param, grad, buffer, group):
    """The rule: p = (1 - lr decay) p - lr' O, with O the orthogonal matrix nearest the momentum."""
    momentum = group["momentum"]
    buffer.lerp_(grad, 1 - momentum)
    update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
    update = _orthogonalize(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
    lr = group["lr"] * _lr_factor(param.shape, group["adjust_lr_fn"])
    param.mul_(1 - group["lr"] * group["weight_decay"])
    param.add_(update.to(param.dtype), alpha=-lr)


def _orthogonalize(grad, coefficients, steps, eps):
    """U V^T of the singular value decomposition, nearly: a Newton-Schulz iteration.

    In bfloat16, each step's numbers rounded once.
    """
    a, b, c = coefficients
    x = grad.bfloat16()
    transposed = grad.size(0) > grad.size(1)
    if transposed:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        polynomial = rushlight.addmm(gram, gram, gram, beta=b, alpha=c)
        x = rushlight.addmm(x, polynomial, x, beta=a)
    return x.T if transposed else x


def _lr_factor(shape, adjust):
    rows, columns = shape[:2]
    if adjust is None or adjust == "original":
        return math.sqrt(max(1, rows / columns))
    return 0.2 * math.sqrt(max(rows, columns))


class Muon(Optimizer):
    """Momentum whose update of a matrix is made orthogonal; for the 2D weights of hidden layers.

    Args:
        lr: learning rate.
        weight_decay: times lr, by how much the parameter shrinks.
        momentum: share of the running average that is kept.
        nesterov: look ahead.
        ns_coefficients, ns_steps: of the iteration that makes it orthogonal.
        eps: least norm.
        adjust_lr_fn: "original" scales lr by sqrt(max(1, rows / columns)), "match_rms_adamw" by
            0.2 sqrt(max(rows, columns)).

    Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _check_lr(lr)
        _check_range("momentum value", momentum)
        _check_range("weight_decay value", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        super().__init__(params, _arguments(locals()))
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        return self._step_each(closure)

    def _step_param(self, param, group):
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        if param.grad.layout is not rushlight.strided:
            raise RuntimeError("Muon does not support sparse gradients")
        state = self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = rushlight.zeros_like(
                param.grad, memory_format=rushlight.preserve_format
            )
        _update(param, param.grad, state["momentum_buffer"], group)
