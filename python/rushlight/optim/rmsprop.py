"""RMSprop."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _addcdiv,
    _check_range,
    _checked,
    _decayed,
    _step_lists,
    _to_scalar,
    _zeros_of,
)

__all__ = ["RMSprop", "rmsprop"]


def _update(param, grad, state, group):
    """The rule: v averages g^2; p = p - lr g / (sqrt(v) + eps), with momentum on demand."""
    alpha, momentum = group["alpha"], group["momentum"]
    grad = _decayed(param, grad, group)
    square_avg = state["square_avg"]
    square_avg.mul_(alpha).add_(grad * grad * (1 - alpha))
    if group["centered"]:
        grad_avg = state["grad_avg"]
        grad_avg.lerp_(grad, 1 - alpha)
        square_avg = square_avg - grad_avg * grad_avg
    denominator = square_avg.sqrt() + group["eps"]
    if momentum > 0:
        buffer = state["momentum_buffer"]
        buffer.mul_(momentum).add_(grad / denominator)
        param.add_(buffer * -group["lr"])
    else:
        _addcdiv(param, grad, denominator, -group["lr"])


class RMSprop(ElementwiseOptimizer):
    """Divides by the root of a running average of squared gradients.

    Args:
        lr: learning rate.
        alpha: share of the running average that is kept.
        eps: added to the root.
        weight_decay: times the parameter, added to the gradient.
        momentum: share of the last step that is kept.
        centered: subtract the squared average gradient: divide by the standard deviation.
        capturable, foreach, maximize, differentiable: as `SGD`.

    Tieleman and Hinton, "Lecture 6.5: RMSprop", 2012.
    """

    _averages = ("square_avg",)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_range("alpha value", alpha)
        super().__init__(params, _checked(locals()))

    def _begin(self, param, group):
        state = super()._begin(param, group)
        if group["momentum"] > 0:
            state["momentum_buffer"] = _zeros_of(param)
        if group["centered"]:
            state["grad_avg"] = _zeros_of(param)
        return state

    _update = staticmethod(_update)

    def _columns(self, group):
        return (
            "square_avg",
            "grad_avg" if group["centered"] else None,
            "momentum_buffer" if group["momentum"] > 0 else None,
        )

    def _fused(self, lists, group):
        rushlight._fused_rmsprop_(
            *lists,
            lr=_to_scalar(group["lr"]),
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            centered=group["centered"],
            maximize=group["maximize"],
        )


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of `RMSprop` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        square_avgs, grad_avgs, momentum_buffer_list, state_steps: their states, of which those that
            the options do not ask for may be empty; the counts of steps become larger by one.
        foreach, capturable, has_complex: accepted; the numbers are the same.
        maximize, differentiable, lr, alpha, eps, weight_decay, momentum, centered: as `RMSprop`.
    """
    group = {
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step_lists(
        RMSprop,
        params,
        grads,
        {
            "square_avg": square_avgs,
            "grad_avg": grad_avgs,
            "momentum_buffer": momentum_buffer_list,
            "step": state_steps,
        },
        group,
    )
