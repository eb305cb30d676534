"""Optimizers whose step takes gradients, in place of those that parameters keep."""

from __future__ import annotations

import rushlight
from rushlight import optim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor
    from rushlight.optim.optimizer import Optimizer

# An optimizer -> the class of what `as_functional_optim` makes of it; None: FunctionalOptimizer.
functional_optim_map: dict[type[Optimizer], type | None] = dict.fromkeys(
    (
        optim.Adadelta, optim.Adagrad, optim.Adam, optim.Adamax, optim.AdamW, optim.RMSprop,
        optim.Rprop, optim.SGD,
    )
)  # fmt: skip


def register_functional_optim(key: type[Optimizer], optim: type) -> None:
    """Let `as_functional_optim(key)` make an object of another class, unless it is known.

    Args:
        key: an optimizer.
        optim: what is made of it: `optim([], *args, **kwargs)`.
    """
    functional_optim_map.setdefault(key, optim)


class FunctionalOptimizer:
    """An optimizer of which a step is told the gradients.

    Args:
        optimizer_class: the optimizer.
        settings: its arguments.
    """

    defaults: dict[str, object]

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        params: Sequence[Tensor],
        settings: dict[str, object],
    ) -> None:
        self._class, self._settings = optimizer_class, settings
        self._optimizers: dict[Tensor, Optimizer] = {}
        self.param_group: dict[str, list[Tensor]] = {"params": list(params)}
        # Arguments are checked now, not in the first step.
        self.defaults = optimizer_class([rushlight.zeros(1)], **settings).defaults

    @property
    def state(self) -> dict[Tensor, dict[str, object]]:
        """What is kept for each parameter."""
        return {p: one.state[p] for p, one in self._optimizers.items() if p in one.state}

    def step_param(self, param: Tensor, grad: Tensor | None) -> None:
        """Change one parameter by its gradient; nothing happens for None."""
        if grad is None:
            return
        optimizer = self._optimizers.get(param)
        if optimizer is None:
            optimizer = self._optimizers[param] = self._class([param], **self._settings)
        kept, param.grad = param.grad, grad
        try:
            optimizer.step()
        finally:
            param.grad = kept

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Change the parameters of `param_group` by gradients in their order.

        Raises:
            ValueError: there are more or fewer gradients than parameters.
        """
        params = self.param_group["params"]
        if len(params) != len(gradients):
            raise ValueError(
                f"{self._class.__name__}: got {len(gradients)} gradients for {len(params)} "
                "parameters"
            )
        for param, grad in zip(params, gradients):
            self.step_param(param, grad)


def as_functional_optim(
    optim_cls: type[Optimizer], *args: object, **kwargs: object
) -> FunctionalOptimizer:
    """An optimizer without parameters, whose `step_param(param, grad)` is told the gradient.

    Args:
        optim_cls: Adadelta, Adagrad, Adam, Adamax, AdamW, RMSprop, Rprop or SGD.
        args: the learning rate, if it is given by place.
        kwargs: its arguments.

    Raises:
        ValueError: another class.

    Example:
        >>> weight = rushlight.ones(2)
        >>> as_functional_optim(rushlight.optim.SGD, lr=0.5).step_param(weight, rushlight.ones(2))
        >>> weight
        tensor([0.5000, 0.5000])
    """
    if optim_cls not in functional_optim_map:
        raise ValueError(f"Optimizer {optim_cls} does not have a functional counterpart!")
    if functional_optim_map[optim_cls] is not None:
        return functional_optim_map[optim_cls]([], *args, **kwargs)
    if len(args) > 1:
        raise TypeError(f"as_functional_optim: give arguments after the first by name, got {args}")
    settings = {**dict(zip(("lr",), args)), **kwargs}
    return FunctionalOptimizer(optim_cls, [], settings)


__all__ = ["as_functional_optim", "functional_optim_map", "register_functional_optim"]
