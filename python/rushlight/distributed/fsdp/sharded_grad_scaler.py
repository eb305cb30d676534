"""Scaling of losses where parameters are sharded."""

from __future__ import annotations

import rushlight
from rushlight.amp import GradScaler
from rushlight.distributed import _collectives as collectives, _group, _process_group
from rushlight.distributed._reduction import ReduceOp
from rushlight.distributed.tensor._dtensor import DTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.distributed import ProcessGroup
    from rushlight.optim import Optimizer
    from rushlight.types import Device


class ShardedGradScaler(GradScaler):
    """amp.GradScaler for parameters of which each process has a part: where the gradients of one
    overflow, all skip the step.

    Args:
        process_group: the processes; all by default.
        others: see amp.GradScaler.
    """

    def __init__(
        self,
        device: Device = "cpu",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group: ProcessGroup | None = process_group

    def _gradients(self, optimizer):
        for gradient in super()._gradients(optimizer):
            yield gradient.to_local() if isinstance(gradient, DTensor) else gradient

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the scale; once between steps."""
        if not self._enabled:
            return
        super().unscale_(optimizer)
        flags = self._found_inf_per_device(optimizer)
        found = rushlight.tensor(float(any(flag.item() for flag in flags.values())))
        if _group.is_initialized():
            with _process_group.host_tensors():
                collectives.all_reduce(found, ReduceOp.MAX, self.process_group)
        if not flags:  # of a process whose parts have no gradients
            flags[found.device] = found
        for flag in flags.values():
            flag.copy_(found)


__all__ = ["ShardedGradScaler"]
