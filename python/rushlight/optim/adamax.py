"""Adamax."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _addcdiv,
    _checked,
    _decayed,
    _step_lists,
    _to_scalar,
)

__all__ = ["Adamax", "adamax"]


def _update(param, grad, state, group):
    """The rule: m averages g, u = max(beta2 u, |g| + eps); p = p - lr / (1 - beta1^step) m / u."""
    beta1, beta2 = group["betas"]
    grad = _decayed(param, grad, group)
    exp_avg, exp_inf = state["exp_avg"], state["exp_inf"]
    exp_avg.lerp_(grad, 1 - beta1)
    exp_inf.copy_(rushlight.maximum(exp_inf * beta2, grad.abs() + group["eps"]))
    step = state["step"].item()
    _addcdiv(param, exp_avg, exp_inf.clone(), -group["lr"] / (1 - beta1**step))


class Adamax(ElementwiseOptimizer):
    """Adam with the infinity norm in place of the second average.

    Args:
        lr: learning rate.
        betas: shares of the running average and of the norm that are kept.
        eps: added to the norm.
        weight_decay: times the parameter, added to the gradient.
        foreach, maximize, differentiable, capturable: as `SGD`.

    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015.
    """

    _averages = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, _checked(locals()))

    _update = staticmethod(_update)

    def _columns(self, group):
        return ("exp_avg", "exp_inf", "step")

    def _fused(self, lists, group):
        rushlight._fused_adamax_(
            *lists,
            lr=_to_scalar(group["lr"]),
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
) -> None:
    """One step of `Adamax` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        exp_avgs, exp_infs, state_steps: their states, of which those that the options do not ask
            for may be empty; the counts of steps become larger by one.
        foreach, capturable, has_complex: accepted; the numbers are the same.
        maximize, differentiable, eps, beta1, beta2, lr, weight_decay: as `Adamax`.
    """
    group = {
        "betas": (beta1, beta2),
        "eps": eps,
        "lr": lr,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step_lists(
        Adamax,
        params,
        grads,
        {"exp_avg": exp_avgs, "exp_inf": exp_infs, "step": state_steps},
        group,
    )
