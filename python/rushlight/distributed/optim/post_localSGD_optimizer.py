"""An optimizer after whose steps the processes take the mean of their parameters."""

from __future__ import annotations

from rushlight.optim import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PostLocalSGDOptimizer(Optimizer):
    """Runs another optimizer, then an averager (T. Lin et al.: Don't Use Large Mini-Batches, Use
    Local SGD, 2018).

    Args:
        optim: the optimizer.
        averager: says when to take the mean, a PeriodicModelAverager.
    """

    def __init__(self, optim: Any, averager: Any) -> None:
        self.optim = optim
        self.averager = averager
        self.param_groups: list[dict[str, Any]] = optim.param_groups
        self.defaults: dict[str, Any] = optim.defaults

    @property
    def state(self) -> Any:
        """That of the optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return f"PostLocalSGDOptimizer({self.optim!r})"

    def state_dict(self) -> Any:
        """The optimizer's state, and which step the averager is in."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state."""
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        self.param_groups = self.optim.param_groups
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """Update the parameters."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: Any) -> None:
        """Add parameters."""
        self.optim.add_param_group(param_group)


__all__ = ["PostLocalSGDOptimizer"]
