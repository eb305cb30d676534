"""Adagrad."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _addcdiv,
    _checked,
    _step_count,
    _step_lists,
    _to_scalar,
)

__all__ = ["Adagrad", "adagrad"]


def _update(param, grad, state, group):
    """The rule: s = s + g^2; p = p - lr / (1 + (step - 1) lr_decay) g / (sqrt(s) + eps)."""
    if group["weight_decay"] != 0:
        if grad.is_sparse:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = grad + group["weight_decay"] * param
    step = state["step"].item()
    lr = group["lr"] / (1 + (step - 1) * group["lr_decay"])
    total = state["sum"]
    if grad.is_sparse:
        _update_rows(param, grad.coalesce(), total, lr, group["eps"])
        return
    total.add_(grad * grad)
    _addcdiv(param, grad, total.sqrt() + group["eps"], -lr)


def _update_rows(param, grad, total, lr, eps):
    """The rule on the elements that a sparse gradient has."""
    places = tuple(grad.indices())
    values = grad.values()
    sums = total[places] + values * values
    total[places] = sums
    param[places] = param[places] - lr * values / (sums.sqrt() + eps)


class Adagrad(ElementwiseOptimizer):
    """Divides by the root of the sum of all squared gradients.

    Args:
        lr: learning rate.
        lr_decay: by how much lr falls per step.
        weight_decay: times the parameter, added to the gradient.
        initial_accumulator_value: start of the sum.
        eps: added to the root.
        foreach, fused, maximize, differentiable: as `SGD`.

    Duchi, Hazan and Singer, "Adaptive Subgradient Methods", 2011.
    """

    _takes_sparse = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, _checked(locals()))
        # Unlike the others' the state exists from the start: programs share its memory.
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param].update(self._begin(param, group))

    def _begin(self, param, group):
        start = group["initial_accumulator_value"]
        start = complex(start, start) if param.is_complex() else start
        total = rushlight.full_like(param, start, memory_format=rushlight.preserve_format)
        return {"step": _step_count(), "sum": total.detach()}

    def share_memory(self) -> None:
        """Move the state to shared memory."""
        for state in self.state.values():
            state["sum"].share_memory_()

    _update = staticmethod(_update)

    def _columns(self, group):
        return ("sum", "step")

    def _fused(self, lists, group):
        rushlight._fused_adagrad_(
            *lists,
            lr=_to_scalar(group["lr"]),
            lr_decay=group["lr_decay"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=group["maximize"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adagrad` for lists, which changes parameters and states in place.

    Args:
        params, grads: the parameters and their gradients.
        state_sums, state_steps: their states, of which those that the options do not ask for may be
            empty; the counts of steps become larger by one.
        fused, has_sparse_grad, foreach, has_complex: accepted; the numbers are the same.
        grad_scale: what gradients are divided by.
        found_inf: nothing is done if it is not zero.
        differentiable, lr, weight_decay, lr_decay, eps, maximize: as `Adagrad`.
    """
    group = {
        "lr": lr,
        "weight_decay": weight_decay,
        "lr_decay": lr_decay,
        "eps": eps,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    _step_lists(
        Adagrad,
        params,
        grads,
        {"sum": state_sums, "step": state_steps},
        group,
        grad_scale,
        found_inf,
    )
