"""Rprop."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _checked,
    _step_count,
    _step_lists,
    _to_scalar,
    _zeros_of,
)

__all__ = ["Rprop", "rprop"]


def _update(param, grad, state, group):
    """The rule: steps grow while the gradient keeps its sign and shrink when it turns."""
    eta_minus, eta_plus = group["etas"]
    prev, step_size = state["prev"], state["step_size"]
    agreement = grad * prev
    factor = rushlight.ones_like(grad)
    factor = factor.masked_fill(agreement > 0, eta_plus).masked_fill(agreement < 0, eta_minus)
    step_size.mul_(factor).clamp_(*group["step_sizes"])
    # Where it turned the gradient is forgotten: no step now, and none that shrinks next time.
    grad = grad.masked_fill(agreement < 0, 0)
    param.sub_(grad.sign() * step_size.clone())  # the next step changes it in place
    prev.copy_(grad)


class Rprop(ElementwiseOptimizer):
    """Resilient propagation: only the signs of gradients count; for whole batches.

    Args:
        lr: the first step size.
        etas: factors by which a step shrinks and grows.
        step_sizes: smallest and largest step.
        capturable, foreach, maximize, differentiable: as `SGD`.

    Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning", 1993.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, _checked(locals()))

    def _begin(self, param, group):
        lr = _to_scalar(group["lr"])
        first = complex(lr, lr) if param.is_complex() else lr
        return {
            "step": _step_count(),
            "prev": _zeros_of(param),
            "step_size": rushlight.full_like(param.grad, first),
        }

    _update = staticmethod(_update)

    def _columns(self, group):
        return ("prev", "step_size")

    def _fused(self, lists, group):
        rushlight._fused_rprop_(
            *lists,
            eta_minus=group["etas"][0],
            eta_plus=group["etas"][1],
            step_size_min=group["step_sizes"][0],
            step_size_max=group["step_sizes"][1],
            maximize=group["maximize"],
        )


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of `Rprop` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        prevs, step_sizes, state_steps: their states, of which those that the options do not ask for
            may be empty; the counts of steps become larger by one.
        foreach, capturable, has_complex: accepted; the numbers are the same.
        maximize, differentiable, step_size_min, step_size_max, etaminus, etaplus: as `Rprop`.
    """
    group = {
        "etas": (etaminus, etaplus),
        "step_sizes": (step_size_min, step_size_max),
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step_lists(
        Rprop, params, grads, {"prev": prevs, "step_size": step_sizes, "step": state_steps}, group
    )
