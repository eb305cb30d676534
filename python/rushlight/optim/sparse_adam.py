"""SparseAdam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import Optimizer, ParamsT, _checked, _to_scalar

__all__ = ["SparseAdam"]


def _update(param, grad, state, *, lr, betas, eps):
    """The rule: Adam on the rows that the gradient has; the others' averages stay as they are."""
    beta1, beta2 = betas
    grad = grad.coalesce()
    values = grad.values()
    if values.numel() == 0:
        return
    rows = tuple(grad.indices())
    old_mean, old_square = state["exp_avg"][rows], state["exp_avg_sq"][rows]
    mean = old_mean + (values - old_mean) * (1 - beta1)
    square = old_square + (values * values - old_square) * (1 - beta2)
    state["exp_avg"][rows] = mean
    state["exp_avg_sq"][rows] = square
    step = state["step"]
    step_size = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    param[rows] = param[rows] - step_size * mean / (square.sqrt() + eps)


class SparseAdam(Optimizer):
    """Adam for sparse gradients: only the rows that occur in the gradient are touched.

    Args: lr, betas, eps, maximize: as `Adam`.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, _checked(locals()))
        params = [param for group in self.param_groups for param in group["params"]]
        dense = [i for i, param in enumerate(params) if param.is_sparse]
        if dense:
            raise ValueError(
                f"Sparse params at indices {dense}: SparseAdam requires dense parameter tensors"
            )

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        return self._step_each(closure)

    def _step_param(self, param, group):
        grad = param.grad
        if not isinstance(grad, Tensor) or not grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"] = rushlight.zeros_like(param)
            state["exp_avg_sq"] = rushlight.zeros_like(param)
        state["step"] += 1
        if group["maximize"]:
            grad = -grad
        lr = _to_scalar(group["lr"])
        _update(param, grad, state, lr=lr, betas=group["betas"], eps=group["eps"])


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """One step of `SparseAdam` for lists, which changes parameters and averages in place.

    Args:
        params, grads: the parameters and their sparse gradients.
        exp_avgs, exp_avg_sqs: their averages.
        state_steps: how many steps each has made, this one included.
        eps, beta1, beta2, lr, maximize: as `SparseAdam`.
    """
    for i, grad in enumerate(grads):
        state = {"exp_avg": exp_avgs[i], "exp_avg_sq": exp_avg_sqs[i], "step": state_steps[i]}
        grad = -grad if maximize else grad
        _update(params[i], grad, state, lr=lr, betas=(beta1, beta2), eps=eps)
