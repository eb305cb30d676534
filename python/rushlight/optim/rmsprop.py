"""RMSprop."""

import rushlight
from rushlight.optim.optimizer import (
    ElementwiseOptimizer,
    _addcdiv,
    _check_range,
    _checked,
    _column,
    _step_count,
    _to_scalar,
    _zeros_of,
)

__all__ = ["RMSprop"]


def _update(param, grad, state, group):
    """The rule: v averages g^2; p = p - lr g / (sqrt(v) + eps), with momentum on demand."""
    alpha, momentum = group["alpha"], group["momentum"]
    if group["weight_decay"] != 0:
        grad = grad + group["weight_decay"] * param
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

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        _check_range("alpha value", alpha)
        super().__init__(params, _checked(locals()))

    def _begin(self, param, group):
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        state = {"step": _step_count()}
        for name in names:
            state[name] = _zeros_of(param)
        return state

    _update = staticmethod(_update)

    def _fused(self, params, grads, states, group):
        centered, momentum = group["centered"], group["momentum"]
        rushlight._fused_rmsprop_(
            params,
            grads,
            _column(states, "square_avg"),
            _column(states, "grad_avg") if centered else [],
            _column(states, "momentum_buffer") if momentum > 0 else [],
            lr=_to_scalar(group["lr"]),
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=momentum,
            centered=centered,
            maximize=group["maximize"],
        )
