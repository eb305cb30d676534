"""Optimizers whose state is spread over processes: over this one."""

from rushlight.optim import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer each of whose parameters is updated by one process: here all by this one.

    Args:
        params: as for the optimizer.
        optimizer_class: the optimizer.
        others: accepted; `defaults` go to the optimizer.
    """

    def __init__(
        self,
        params,
        optimizer_class,
        process_group=None,
        parameters_as_bucket_view=False,
        overlap_with_ddp=False,
        **defaults,
    ):
        self.optim = optimizer_class(params, **defaults)
        super().__init__(self.optim.param_groups, self.optim.defaults)
        self.optim.param_groups = self.param_groups  # a change of one is a change of the other
        self.state = self.optim.state

    def step(self, closure=None, **kwargs):
        """Update the parameters."""
        return self.optim.step(closure)

    def consolidate_state_dict(self, to=0):
        """Collect the state of all processes: it is here."""

    def state_dict(self):
        """The state of the optimizer."""
        return self.optim.state_dict()

    def load_state_dict(self, state_dict):
        """Take over a state."""
        self.optim.load_state_dict(state_dict)
        self.param_groups, self.state = self.optim.param_groups, self.optim.state


__all__ = ["ZeroRedundancyOptimizer"]
