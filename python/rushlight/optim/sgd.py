"""Stochastic gradient descent."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    ParamsT,
    _checked,
    _fusible,
    _scaled,
    _to_scalar,
    _with_gradients,
)

__all__ = ["SGD", "sgd"]


def _update(param, grad, velocity, *, lr, momentum, dampening, weight_decay, nesterov):
    """The rule: v = momentum v + (1 - dampening) g, p = p - lr v. Returns the velocity."""
    if isinstance(weight_decay, Tensor) or weight_decay != 0:
        grad = grad + weight_decay * param
    if momentum != 0:
        if velocity is None:
            velocity = grad.detach().clone()
        else:
            velocity.mul_(momentum).add_(grad, alpha=1 - dampening)
        grad = grad + momentum * velocity if nesterov else velocity
    if isinstance(lr, Tensor):
        param.add_(-lr * grad)
    else:
        param.add_(grad, alpha=-lr)
    return velocity


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent, with momentum on demand.

    Args:
        lr: learning rate.
        momentum: share of the last step's velocity that is kept.
        dampening: share of the gradient that does not enter the velocity.
        weight_decay: times the parameter, added to the gradient.
        nesterov: look ahead along the velocity.
        maximize: ascend instead.
        foreach, fused: accepted; fused=False takes the plain rule.
        differentiable: let autograd run through the step.

    Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.
    """

    _takes_sparse = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, _checked(locals()))

    def _step_group(self, group):
        fusible = _fusible(group)
        params, grads = fusible or _with_gradients(group)
        velocities = [None] * len(params)
        if group["momentum"] != 0:
            velocities = [self.state[param].get("momentum_buffer") for param in params]
        if fusible:
            velocities = self._fused_lists(params, grads, velocities, group)
        else:
            names = ("lr", "momentum", "dampening", "weight_decay", "nesterov")
            rule = {name: group[name] for name in names}
            velocities = [
                _update(param, -grad if group["maximize"] else grad, velocity, **rule)
                for param, grad, velocity in zip(params, grads, velocities)
            ]
        if group["momentum"] != 0:
            for param, velocity in zip(params, velocities):
                self.state[param]["momentum_buffer"] = velocity

    def _fused_lists(self, params, grads, velocities, group):
        """The velocities after the step; parameters that have none yet make their first step."""
        if group["momentum"] == 0:
            self._fused_call(params, grads, [], group, False)
            return velocities
        new = [i for i, velocity in enumerate(velocities) if velocity is None]
        old = [i for i, velocity in enumerate(velocities) if velocity is not None]
        for i in new:
            velocities[i] = rushlight.empty_like(params[i].detach())
        for rows, first in ((new, True), (old, False)):
            if rows:
                lists = ([values[i] for i in rows] for values in (params, grads, velocities))
                self._fused_call(*lists, group, first)
        return velocities

    def _fused_call(self, params, grads, velocities, group, first):
        rushlight._fused_sgd_(
            params,
            grads,
            velocities,
            is_first_step=first,
            weight_decay=_to_scalar(group["weight_decay"]),
            momentum=group["momentum"],
            lr=_to_scalar(group["lr"]),
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of `SGD` for lists, which changes parameters and velocities in place.

    Args:
        params, d_p_list: the parameters and their gradients.
        momentum_buffer_list: their velocities; None for those that make their first step, which
            is replaced.
        has_sparse_grad, foreach, fused: accepted; the numbers are the same.
        grad_scale: what gradients are divided by.
        found_inf: nothing is done if it is not zero.
        weight_decay, momentum, lr, dampening, nesterov, maximize: as `SGD`.
    """
    grads = _scaled(d_p_list, grad_scale, found_inf)
    for i, grad in enumerate(grads):
        momentum_buffer_list[i] = _update(
            params[i], -grad if maximize else grad, momentum_buffer_list[i], lr=lr,
            momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
        )  # fmt: skip
