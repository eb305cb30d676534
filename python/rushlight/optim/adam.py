"""Adam."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _addcdiv,
    _check_lr,
    _checked,
    _decayed,
    _step_lists,
    _to_scalar,
    _zeros_of,
)

__all__ = ["Adam", "adam"]


def _update(param, grad, state, group):
    """The rule: m and v average g and g^2; p = p - lr m' / (sqrt(v') + eps), ' without bias."""
    lr = group["lr"]
    beta1, beta2 = group["betas"]
    grad = _decayed(param, grad, group)
    exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
    exp_avg.lerp_(grad, 1 - beta1)
    exp_avg_sq.mul_(beta2).add_(grad * grad * (1 - beta2))
    step = state["step"].item()
    step_size = lr / (1 - beta1**step)
    if group["amsgrad"]:
        if group["differentiable"]:
            state["max_exp_avg_sq"] = rushlight.maximum(state["max_exp_avg_sq"], exp_avg_sq)
        else:
            rushlight.maximum(state["max_exp_avg_sq"], exp_avg_sq, out=state["max_exp_avg_sq"])
        exp_avg_sq = state["max_exp_avg_sq"]
    denominator = exp_avg_sq.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
    _addcdiv(param, exp_avg, denominator, -step_size)


class Adam(ElementwiseOptimizer):
    """Adaptive moment estimation.

    Args:
        lr: learning rate.
        betas: shares of the running averages of the gradient and of its square that are kept.
        eps: added to the root of the second average.
        weight_decay: times the parameter, added to the gradient.
        amsgrad: divide by the largest second average so far.
        maximize: ascend instead.
        foreach, fused, capturable: accepted; fused=False takes the plain rule.
        differentiable: let autograd run through the step.
        decoupled_weight_decay: shrink the parameter instead, as AdamW does.

    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015.
    """

    _averages = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check_lr(lr, foreach, capturable)
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        super().__init__(params, _checked(locals()))

    def _begin(self, param, group):
        state = super()._begin(param, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = _zeros_of(param)
        return state

    _update = staticmethod(_update)

    def _columns(self, group):
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq" if group["amsgrad"] else None, "step")

    def _fused(self, lists, group):
        decoupled = group["decoupled_weight_decay"]
        fused = rushlight._fused_adamw_ if decoupled else rushlight._fused_adam_
        beta1, beta2 = group["betas"]
        params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps = lists
        fused(  # lists one by one: keywords beside a *list go through a dict
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            max_exp_avg_sqs,
            steps,
            lr=_to_scalar(group["lr"]),
            beta1=_to_scalar(beta1),
            beta2=_to_scalar(beta2),
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=group["amsgrad"],
            maximize=group["maximize"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adam` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps: their states, of which those that the
            options do not ask for may be empty; the counts of steps become larger by one.
        foreach, capturable, fused, has_complex: accepted; the numbers are the same.
        grad_scale: what gradients are divided by.
        found_inf: nothing is done if it is not zero.
        differentiable, decoupled_weight_decay, amsgrad, beta1, beta2, lr, weight_decay, eps,
            maximize: as `Adam`.
    """
    group = {
        "betas": (beta1, beta2),
        "amsgrad": amsgrad,
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "maximize": maximize,
        "differentiable": differentiable,
        "decoupled_weight_decay": decoupled_weight_decay,
    }
    _step_lists(
        Adam,
        params,
        grads,
        {
            "exp_avg": exp_avgs,
            "exp_avg_sq": exp_avg_sqs,
            "max_exp_avg_sq": max_exp_avg_sqs,
            "step": state_steps,
        },
        group,
        grad_scale,
        found_inf,
    )
