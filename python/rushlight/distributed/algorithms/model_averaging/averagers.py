"""When processes take the mean of their parameters."""

from __future__ import annotations

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup


class PeriodicModelAverager:
    """Takes the mean of the parameters of all processes in every `period`-th step.

    Args:
        period: how many steps lie between two means.
        warmup_steps: steps at the start without one.
        process_group: the processes; all by default.
    """

    def __init__(
        self, period: Any, warmup_steps: int = 0, process_group: ProcessGroup | None = None
    ) -> None:
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps, self.step = period, warmup_steps, 0
        self.process_group: Any = resolve(process_group)

    def average_parameters(self, params: Any) -> None:
        """Count a step, and take the mean if it is time: of parameters, or of parameter groups."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            parameters = [
                p
                for thing in params
                for p in (thing["params"] if isinstance(thing, dict) else [thing])
                if isinstance(thing, rushlight.Tensor) or p.grad is not None
            ]
            by_dtype = {}
            for parameter in parameters:
                by_dtype.setdefault(parameter.dtype, []).append(parameter)
            with rushlight.no_grad():
                for same in by_dtype.values():
                    flat = rushlight.cat([parameter.reshape(-1) for parameter in same])
                    flat.div_(self.process_group.size())
                    collectives.all_reduce(flat, group=self.process_group)
                    for parameter, part in zip(same, flat.split([p.numel() for p in same])):
                        parameter.copy_(part.view(parameter.shape))
        self.step += 1


__all__ = ["PeriodicModelAverager"]
