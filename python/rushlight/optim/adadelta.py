"""Adadelta."""

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

__all__ = ["Adadelta", "adadelta"]


def _update(param, grad, state, group):
    """The rule: v averages g^2, u averages d^2; d = sqrt(u + eps) / sqrt(v + eps) g, p -= lr d."""
    rho, eps = group["rho"], group["eps"]
    grad = _decayed(param, grad, group)
    square_avg, acc_delta = state["square_avg"], state["acc_delta"]
    square_avg.mul_(rho).add_(grad * grad * (1 - rho))
    delta = (acc_delta + eps).sqrt() / (square_avg + eps).sqrt() * grad
    acc_delta.mul_(rho).add_(delta * delta * (1 - rho))
    param.add_(-group["lr"] * delta)


class Adadelta(ElementwiseOptimizer):
    """Steps in units of the parameter, from running averages of squared gradients and steps.

    Args:
        lr: scale of the steps.
        rho: share of the running averages that is kept.
        eps: added under the roots.
        weight_decay: times the parameter, added to the gradient.
        foreach, capturable, maximize, differentiable: as `SGD`.

    Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.
    """

    _averages = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, _checked(locals()))

    _update = staticmethod(_update)

    def _columns(self, group):
        return ("square_avg", "acc_delta")

    def _fused(self, lists, group):
        rushlight._fused_adadelta_(
            *lists,
            lr=_to_scalar(group["lr"]),
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of `Adadelta` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        square_avgs, acc_deltas, state_steps: their states, of which those that the options do not
            ask for may be empty; the counts of steps become larger by one.
        capturable, foreach, has_complex: accepted; the numbers are the same.
        differentiable, lr, rho, eps, weight_decay, maximize: as `Adadelta`.
    """
    group = {
        "lr": lr,
        "rho": rho,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step_lists(
        Adadelta,
        params,
        grads,
        {"square_avg": square_avgs, "acc_delta": acc_deltas, "step": state_steps},
        group,
    )
