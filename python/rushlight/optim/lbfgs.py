"""L-BFGS."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import Optimizer, ParamsT, _arguments, _check_lr, _to_scalar

__all__ = ["LBFGS"]


def _direction(grad, steps, changes, curvatures, scale):
    """The rule: minus the inverse Hessian that the last steps suggest, times the gradient.

    The two-loop recursion; `steps` are s, `changes` are y of the gradient, `curvatures` 1 / y.s.
    """
    q = -grad
    weights = [None] * len(steps)
    for i in reversed(range(len(steps))):
        weights[i] = steps[i].dot(q) * curvatures[i]
        q.add_(changes[i], alpha=-weights[i].item())
    d = q * scale
    for i in range(len(steps)):
        beta = changes[i].dot(d) * curvatures[i]
        d.add_(steps[i], alpha=(weights[i] - beta).item())
    return d, weights


class LBFGS(Optimizer):
    """Limited-memory BFGS; each step makes up to `max_iter` iterations and needs a closure.

    Args:
        lr: scale of the first step of each iteration.
        max_iter: iterations per step.
        max_eval: evaluations of the closure per step; None is max_iter * 5 / 4.
        tolerance_grad: stop once no gradient is larger.
        tolerance_change: stop once neither parameters nor loss change by more.
        history_size: how many past steps are remembered.
        line_search_fn: None or "strong_wolfe".

    Nocedal and Wright, "Numerical Optimization", chapters 3 and 7.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        _check_lr(lr)
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, _arguments(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # -- all parameters as one vector ------------------------------------------------------------

    def _gather_flat_grad(self):
        parts = []
        for param in self._params:
            if param.grad is None:
                part = param.new_zeros(param.numel())
            else:
                part = param.grad.to_dense().reshape(-1)
            parts.append(rushlight.view_as_real(part).reshape(-1) if part.is_complex() else part)
        return rushlight.cat(parts, 0)

    def _add_grad(self, step_size, direction):
        offset = 0
        for param in self._params:
            real = rushlight.view_as_real(param) if param.is_complex() else param
            size = real.numel()
            real.add_(direction[offset : offset + size].view_as(real), alpha=step_size)
            offset += size

    def _clone_param(self):
        return [param.clone() for param in self._params]

    def _set_param(self, values):
        for param, value in zip(self._params, values):
            param.copy_(value)

    def _directional_evaluate(self, closure, start, t, direction):
        """Loss and gradient at start + t direction; the parameters go back to `start`."""
        self._add_grad(t, direction)
        loss = _value(closure())
        flat_grad = self._gather_flat_grad()
        self._set_param(start)
        return loss, flat_grad

    # -- iterations ------------------------------------------------------------------------------

    def step(self, closure: Callable[..., Any]) -> Any:
        """Make up to `max_iter` iterations.

        Args:
            closure: clears the gradients, computes the loss and its gradients, and returns it.
        """
        with rushlight.no_grad():
            return self._iterate(rushlight.enable_grad()(closure))

    def _iterate(self, closure):
        group = self.param_groups[0]
        lr = _to_scalar(group["lr"])
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss = _value(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        flat_grad = self._gather_flat_grad()
        if float(flat_grad.abs().max()) <= group["tolerance_grad"]:
            return first_loss

        d, t = state.get("d"), state.get("t")
        previous_grad, previous_loss = state.get("prev_flat_grad"), state.get("prev_loss")
        iteration = 0
        while iteration < group["max_iter"]:
            iteration += 1
            state["n_iter"] += 1
            d = self._next_direction(state, group, flat_grad, previous_grad, d, t)
            previous_grad = flat_grad.clone()
            previous_loss = loss
            t = lr
            if state["n_iter"] == 1:
                t = min(1.0, _ratio(1.0, float(flat_grad.abs().sum()))) * lr
            slope = float(flat_grad.dot(d))
            if slope > -group["tolerance_change"]:
                break
            loss, flat_grad, t, used = self._move(
                closure, group, loss, flat_grad, d, t, slope, iteration,
                group["max_eval"] - evaluations,
            )  # fmt: skip
            evaluations += used
            state["func_evals"] += used
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or float(flat_grad.abs().max()) <= group["tolerance_grad"]
                or float((d * t).abs().max()) <= group["tolerance_change"]
                or abs(loss - previous_loss) < group["tolerance_change"]
            ):
                break
        state.update(d=d, t=t, prev_flat_grad=previous_grad, prev_loss=previous_loss)
        return first_loss

    def _next_direction(self, state, group, flat_grad, previous_grad, d, t):
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -flat_grad
        change, step = flat_grad - previous_grad, d * t
        curvature = change.dot(step)
        if float(curvature) > 1e-10:
            for name, value in (("old_dirs", change), ("old_stps", step), ("ro", 1.0 / curvature)):
                if len(state[name]) == group["history_size"]:
                    state[name].pop(0)
                state[name].append(value)
            state["H_diag"] = curvature / change.dot(change)
        d, weights = _direction(
            flat_grad, state["old_stps"], state["old_dirs"], state["ro"], state["H_diag"]
        )
        empty = [None] * (group["history_size"] - len(weights))
        state["al"] = weights + empty
        return d

    def _move(self, closure, group, loss, flat_grad, d, t, slope, iteration, most):
        """Along d by t, or by what the line search finds in about `most` evaluations: (loss,
        gradient, t, evaluations).
        """
        search = group["line_search_fn"]
        if search is not None:
            if search != "strong_wolfe":
                raise RuntimeError("only 'strong_wolfe' is supported")
            evaluate = functools.partial(self._directional_evaluate, closure)
            start = self._clone_param()
            result = _strong_wolfe(evaluate, start, t, d, loss, flat_grad, slope, max_ls=most)
            self._add_grad(result[2], d)
            return result
        self._add_grad(t, d)
        if iteration == group["max_iter"]:  # the last one's gradient would not be used
            return loss, flat_grad, t, 0
        loss = _value(closure())
        return loss, self._gather_flat_grad(), t, 1


# -- line search -----------------------------------------------------------------------------------


def _value(loss):
    """Its number, which is meant to have no gradient."""
    return float(loss.detach() if isinstance(loss, Tensor) else loss)


def _ratio(a, b):
    """a / b as tensors divide: by 0 too."""
    if b != 0:
        return a / b
    return math.copysign(math.inf, a) if a != 0 and a == a else math.nan


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum of the cubic with values f and slopes g at x1 and x2, within the bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        minimum = x2 - (x2 - x1) * _ratio(g2 + d2 - d1, g2 - g1 + 2 * d2)
    else:
        minimum = x1 - (x1 - x2) * _ratio(g1 + d2 - d1, g1 - g2 + 2 * d2)
    return min(max(minimum, low), high)


class _Point:
    """A step size with the loss, the gradient and the slope there."""

    def __init__(self, t: Tensor, loss: Any, grad: Tensor, slope: Any) -> None:
        self.t, self.loss, self.grad, self.slope = t, loss, grad, slope


def _strong_wolfe(obj_func, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step size that satisfies the strong Wolfe conditions: (loss, gradient, t, evaluations).

    With torch's arguments, as programs have line searches of their own from here.
    """
    largest = float(d.abs().max())
    start, slope = _Point(0, f, g, gtd), gtd

    def at(t):
        new_loss, new_grad = obj_func(x, t, d)
        return _Point(t, new_loss, new_grad.clone(), float(new_grad.dot(d)))

    def too_high(point):
        return point.loss > f + c1 * point.t * slope

    # Enlarge the step until an interval that holds a minimum is found.
    previous, point = start, at(t)
    evaluations = 1
    low, high = start, point
    for iteration in range(max_ls):
        # Torch compares with the point before from the third on; the textbook from the second.
        if too_high(point) or (iteration > 1 and point.loss >= previous.loss):
            low, high = previous, point
            break
        if abs(point.slope) <= -c2 * slope:
            return point.loss, point.grad, point.t, evaluations
        if point.slope >= 0:
            low, high = previous, point
            break
        bounds = (point.t + 0.01 * (point.t - previous.t), point.t * 10)
        t = _cubic_interpolate(
            previous.t, previous.loss, previous.slope, point.t, point.loss, point.slope, bounds
        )
        previous, point = point, at(t)
        evaluations += 1
        low, high = start, point
    else:
        iteration = max_ls

    # Shrink it around the minimum; `low` is the better end.
    if low.loss > high.loss:
        low, high = high, low
    little_progress = False
    while iteration < max_ls:
        width = abs(high.t - low.t)
        if width * largest < tolerance_change:
            break
        t = _cubic_interpolate(low.t, low.loss, low.slope, high.t, high.loss, high.slope)
        left, right = min(low.t, high.t), max(low.t, high.t)
        margin = 0.1 * width
        if min(right - t, t - left) < margin:  # too near to an end
            if little_progress or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                little_progress = False
            else:
                little_progress = True
        else:
            little_progress = False
        point = at(t)
        evaluations += 1
        iteration += 1
        if too_high(point) or point.loss >= low.loss:
            high = point
            if low.loss > high.loss:
                low, high = high, low
        else:
            if abs(point.slope) <= -c2 * slope:
                return point.loss, point.grad, point.t, evaluations
            if point.slope * (high.t - low.t) >= 0:
                high = low
            low = point
    return low.loss, low.grad, low.t, evaluations
