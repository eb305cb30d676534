"""RAdam."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _checked,
    _decayed,
    _step_lists,
    _to_scalar,
)

__all__ = ["RAdam", "radam"]


def _update(param, grad, state, group):
    """The rule: Adam times a rectification, or without the division while v is too uncertain."""
    lr = group["lr"]
    beta1, beta2 = group["betas"]
    grad = _decayed(param, grad, group)
    exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
    exp_avg.lerp_(grad, 1 - beta1)
    exp_avg_sq.mul_(beta2).add_(grad * grad * (1 - beta2))
    step = state["step"].item()
    unbiased = exp_avg / (1 - beta1**step)
    # The length of the moving average that v is; up to 5 its variance is not tractable.
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / (1 - beta2**step)
    if length > 5:
        rectification = (length - 4) * (length - 2) * longest
        rectification /= (longest - 4) * (longest - 2) * length
        adaptive = (1 - beta2**step) ** 0.5 / (exp_avg_sq.sqrt() + group["eps"])
        unbiased = unbiased * adaptive * rectification**0.5
    param.add_(unbiased * -lr)


class RAdam(ElementwiseOptimizer):
    """Adam with a rectified step while the second average is young.

    Args:
        lr, betas, eps, weight_decay, decoupled_weight_decay: as `Adam`.
        foreach, maximize, capturable, differentiable: as `SGD`.

    Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020.
    """

    _averages = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, _checked(locals()))

    _update = staticmethod(_update)

    def _columns(self, group):
        return ("exp_avg", "exp_avg_sq", "step")

    def _fused(self, lists, group):
        rushlight._fused_radam_(
            *lists,
            lr=_to_scalar(group["lr"]),
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            maximize=group["maximize"],
        )


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of `RAdam` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        exp_avgs, exp_avg_sqs, state_steps: their states, of which those that the options do not ask
            for may be empty; the counts of steps become larger by one.
        foreach, capturable, has_complex: accepted; the numbers are the same.
        decoupled_weight_decay, differentiable, maximize, beta1, beta2, lr, weight_decay, eps: as
            `RAdam`.
    """
    group = {
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "maximize": maximize,
        "differentiable": differentiable,
        "decoupled_weight_decay": decoupled_weight_decay,
    }
    _step_lists(
        RAdam,
        params,
        grads,
        {"exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "step": state_steps},
        group,
    )
