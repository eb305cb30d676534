"""Adamax."""

import rushlight
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    _addcdiv,
    _checked,
    _column,
    _step_count,
    _to_scalar,
    _zeros_of,
)

__all__ = ["Adamax"]


def _update(param, grad, state, group):
    """The rule: m averages g, u = max(beta2 u, |g| + eps); p = p - lr / (1 - beta1^step) m / u."""
    beta1, beta2 = group["betas"]
    if group["weight_decay"] != 0:
        grad = grad + group["weight_decay"] * param
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

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
    ):
        super().__init__(params, _checked(locals()))

    def _begin(self, param, group):
        return {
            "step": _step_count(),
            "exp_avg": _zeros_of(param),
            "exp_inf": _zeros_of(param),
        }

    _update = staticmethod(_update)

    def _fused(self, params, grads, states, group):
        rushlight._fused_adamax_(
            params,
            grads,
            _column(states, "exp_avg"),
            _column(states, "exp_inf"),
            _column(states, "step"),
            lr=_to_scalar(group["lr"]),
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
