"""Averaged stochastic gradient descent."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _checked,
    _decayed,
    _step_count,
    _step_lists,
    _to_scalar,
    _zeros_of,
)

__all__ = ["ASGD", "asgd"]


def _update(param, grad, state, group):
    """The rule: p = (1 - lambd eta) p - eta g; ax averages p from step t0 on."""
    grad = _decayed(param, grad, group)
    eta, mu, ax = state["eta"].item(), state["mu"].item(), state["ax"]
    param.mul_(1 - group["lambd"] * eta)
    param.add_(grad, alpha=-eta)
    if mu == 1:
        ax.copy_(param)
    else:
        ax.add_((param - ax) * mu)


def _next_sizes(state, group):
    """The step size and the share of the average that the next step has."""
    step, lr = state["step"].item(), _to_scalar(group["lr"])
    state["eta"].fill_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
    state["mu"].fill_(1 / max(1, step - group["t0"]))


class ASGD(ElementwiseOptimizer):
    """Averaged stochastic gradient descent; the average is `state[p]["ax"]`.

    Args:
        lr: first step size.
        lambd: decay of the parameter.
        alpha: power with which the step size falls.
        t0: the step at which averaging starts.
        weight_decay: times the parameter, added to the gradient.
        foreach, maximize, differentiable, capturable: as `SGD`.

    Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, _checked(locals()))

    def _begin(self, param, group):
        return {
            "step": _step_count(),
            "eta": _step_count().fill_(_to_scalar(group["lr"])),
            "mu": _step_count().fill_(1.0),
            "ax": _zeros_of(param),
        }

    def _update(self, param, grad, state, group):
        _update(param, grad, state, group)
        _next_sizes(state, group)

    def _columns(self, group):
        return ("ax", "mu", "eta")

    def _fused(self, lists, group):
        rushlight._fused_asgd_(
            *lists,
            lambd=group["lambd"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
        for param in lists[0]:
            _next_sizes(self.state[param], group)


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of `ASGD` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        axs, mus, etas, state_steps: their states, of which those that the options do not ask for
            may be empty; the counts of steps become larger by one.
        foreach, capturable, has_complex: accepted; the numbers are the same.
        maximize, differentiable, lambd, lr, t0, alpha, weight_decay: as `ASGD`.
    """
    group = {
        "lambd": lambd,
        "lr": lr,
        "t0": t0,
        "alpha": alpha,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step_lists(
        ASGD, params, grads, {"ax": axs, "mu": mus, "eta": etas, "step": state_steps}, group
    )
