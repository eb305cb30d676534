"""When processes take the mean of their parameters."""

from __future__ import annotations

import abc

from rushlight.distributed._group import resolve
from rushlight.distributed.algorithms.model_averaging import utils

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup


class ModelAverager(abc.ABC):
    """Takes the mean of the parameters of all processes in some steps.

    Args:
        process_group: the processes; all by default.
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group: Any = resolve(process_group)
        self.step = 0

    @abc.abstractmethod
    def average_parameters(self, params: Any) -> None:
        """Count a step, and take the mean if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Takes the mean of the parameters of all processes in every `period`-th step.

    Args:
        period: how many steps lie between two means.
        warmup_steps: steps at the start without one.
        process_group: the processes; all by default.
    """

    period: int
    warmup_steps: int

    def __init__(
        self, period: Any, warmup_steps: int = 0, process_group: ProcessGroup | None = None
    ) -> None:
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        super().__init__(process_group)
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Any) -> None:
        """Count a step, and take the mean if it is time: of parameters, or of parameter groups,
        that have gradients.
        """
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


__all__ = ["ModelAverager", "PeriodicModelAverager"]
