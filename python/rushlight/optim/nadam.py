"""NAdam."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _addcdiv,
    _checked,
    _decayed,
    _step_count,
    _step_lists,
    _to_scalar,
    _zeros_of,
)

__all__ = ["NAdam", "nadam"]


def _momentum(step, group):
    """The momentum of a step, which grows towards beta1."""
    return group["betas"][0] * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))


def _update(param, grad, state, group):
    """The rule: Adam whose step looks ahead: next step's share of m and this step's of g."""
    lr = group["lr"]
    beta1, beta2 = group["betas"]
    grad = _decayed(param, grad, group)
    step, product = state["step"].item(), state["mu_product"]
    if not group["differentiable"]:
        product = product.item()
    mu, next_mu = _momentum(step, group), _momentum(step + 1, group)
    exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
    exp_avg.lerp_(grad, 1 - beta1)
    exp_avg_sq.mul_(beta2).add_(grad * grad * (1 - beta2))
    denominator = (exp_avg_sq / (1 - beta2**step)).sqrt() + group["eps"]
    _addcdiv(param, grad, denominator, -lr * (1 - mu) / (1 - product))
    _addcdiv(param, exp_avg, denominator, -lr * next_mu / (1 - product * next_mu))


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov momentum.

    Args:
        lr, betas, eps, weight_decay, decoupled_weight_decay: as `Adam`.
        momentum_decay: how fast the momentum grows to beta1.
        foreach, maximize, capturable, differentiable: as `SGD`.

    Dozat, "Incorporating Nesterov Momentum into Adam", 2016.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, _checked(locals()))

    def _begin(self, param, group):
        return {
            "step": _step_count(),
            "mu_product": _step_count().fill_(1.0),
            "exp_avg": _zeros_of(param),
            "exp_avg_sq": _zeros_of(param),
        }

    def _update(self, param, grad, state, group):
        state["mu_product"] *= _momentum(state["step"].item(), group)
        _update(param, grad, state, group)

    def _columns(self, group):
        return ("exp_avg", "exp_avg_sq", "mu_product", "step")

    def _fused(self, lists, group):
        for mu_product, step in zip(*lists[-2:]):
            mu_product *= _momentum(step.item(), group)
        rushlight._fused_nadam_(
            *lists,
            lr=_to_scalar(group["lr"]),
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            momentum_decay=group["momentum_decay"],
            eps=group["eps"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            maximize=group["maximize"],
        )


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of `NAdam` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        exp_avgs, exp_avg_sqs, mu_products, state_steps: their states, of which those that the
            options do not ask for may be empty; the counts of steps become larger by one.
        foreach, capturable, has_complex: accepted; the numbers are the same.
        decoupled_weight_decay, differentiable, maximize, beta1, beta2, lr, weight_decay,
            momentum_decay, eps: as `NAdam`.
    """
    group = {
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "momentum_decay": momentum_decay,
        "eps": eps,
        "maximize": maximize,
        "differentiable": differentiable,
        "decoupled_weight_decay": decoupled_weight_decay,
    }
    _step_lists(
        NAdam,
        params,
        grads,
        {
            "exp_avg": exp_avgs,
            "exp_avg_sq": exp_avg_sqs,
            "mu_product": mu_products,
            "step": state_steps,
        },
        group,
    )
