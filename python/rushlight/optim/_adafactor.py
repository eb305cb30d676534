"""Adafactor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    Optimizer,
    ParamsT,
    _arguments,
    _check_lr,
    _check_range,
    _keep_numbers_in_tensors,
    _step_count,
    _to_scalar,
)

__all__ = ["Adafactor"]


def _update(param, grad, state, group):
    """The rule: v = (row means x column means of averaged g^2); p -= alpha g / sqrt(v), clipped."""
    step, lr = state["step"].item(), _to_scalar(group["lr"])
    eps1, eps2 = group["eps"]
    if eps1 is None:
        eps1 = rushlight.finfo(param.dtype).eps
    weight = step ** group["beta2_decay"]  # of the new square in the average
    rho = min(lr, 1 / step**0.5)
    root = max(1, param.numel()) ** 0.5
    size = param.norm(2).item() / root
    alpha = max(eps2, size) * rho
    if group["weight_decay"] != 0:
        param.mul_(1 - lr * group["weight_decay"])
    if grad.dim() > 1:
        row_var, col_var = state["row_var"], state["col_var"]
        row_var.lerp_(grad.norm(dim=-1, keepdim=True).square() / grad.size(-1), weight)
        col_var.lerp_(grad.norm(dim=-2, keepdim=True).square() / grad.size(-2), weight)
        variance = row_var @ col_var / row_var.mean(dim=-2, keepdim=True).clamp(min=eps1)
    else:
        variance = state["variance"].lerp_(grad.square(), weight)
    update = grad * variance.clamp(min=eps1 * eps1).rsqrt()
    clip = max(1.0, update.norm(2).item() / (root * group["d"]))
    param.add_(update, alpha=-alpha / clip)


class Adafactor(Optimizer):
    """Adam with second averages in the memory of a row and a column per matrix.

    Args:
        lr: bound of the relative step size.
        beta2_decay: power with which the weight of a new square falls.
        eps: least variance, and least size of a parameter.
        d: size of the update above which it is clipped.
        weight_decay: times lr, by how much the parameter shrinks.
        foreach: accepted.
        maximize: ascend instead.

    Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _check_lr(lr)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            _check_range("epsilon1 value", eps[0])
        _check_range("epsilon2 value", eps[1])
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        _check_range("weight_decay value", weight_decay)
        super().__init__(params, _arguments(locals()))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _keep_numbers_in_tensors(self.state)

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        return self._step_each(closure)

    def _step_param(self, param, group):
        grad = param.grad
        if grad.layout is not rushlight.strided:
            raise RuntimeError("Adafactor does not support sparse gradients")
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state = self.state[param]
        if not state:
            state["step"] = _step_count()
            if grad.dim() > 1:
                *batch, rows, columns = grad.shape
                state["row_var"] = grad.new_zeros((*batch, rows, 1))
                state["col_var"] = grad.new_zeros((*batch, 1, columns))
            else:
                state["variance"] = rushlight.zeros_like(grad)
        state["step"] += 1
        _update(param, -grad if group["maximize"] else grad, state, group)
