"""An optimizer after whose steps the processes take the mean of their parameters."""

from rushlight.optim import Optimizer


class PostLocalSGDOptimizer(Optimizer):
    """Runs another optimizer, then an averager (T. Lin et al.: Don't Use Large Mini-Batches, Use
    Local SGD, 2018).

    Args:
        optim: the optimizer.
        averager: says when to take the mean, a PeriodicModelAverager.
    """

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups, self.defaults = optim.param_groups, optim.defaults

    @property
    def state(self):
        """That of the optimizer."""
        return self.optim.state

    def __repr__(self):
        return f"PostLocalSGDOptimizer({self.optim!r})"

    def state_dict(self):
        """The optimizer's state, and which step the averager is in."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        """Take over a state."""
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        self.param_groups = self.optim.param_groups
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure=None):
        """Update the parameters."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none=True):
        """Forget the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """Add parameters."""
        self.optim.add_param_group(param_group)


__all__ = ["PostLocalSGDOptimizer"]
