"""Means of parameters among few processes often, and among many seldom."""

from __future__ import annotations

from rushlight._ignored import warn_program as _warn_program
from rushlight.distributed._group import new_subgroups
from rushlight.distributed.algorithms.model_averaging import utils
from rushlight.distributed.algorithms.model_averaging.averagers import ModelAverager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup


class HierarchicalModelAverager(ModelAverager):
    """Takes means of parameters among groups of several sizes, each with a period of its own; in a
    step of several periods, that of the longest counts.

    Args:
        period_group_size_dict: period -> size of the groups, the longest period and all processes
            last.
        warmup_steps: steps at the start without a mean.
        process_group: the processes; all by default.
    """

    def __init__(
        self,
        period_group_size_dict: dict[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        periods, size = list(period_group_size_dict), self.process_group.size()
        if min(periods) <= 0:
            raise ValueError(
                "The minimum period in arg ``period_group_size_dict`` must be a positive value."
            )
        if period_group_size_dict[periods[-1]] != size:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` "
                f"{period_group_size_dict[periods[-1]]} must be equal to the size of arg "
                f"``process_group`` {size}."
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if periods[-1] == 1:
            _warn_program(
                "HierarchicalModelAverager: a mean of parameters in each step costs as much as one "
                "of gradients, which DistributedDataParallel takes",
            )
        self.warmup_steps = warmup_steps
        self.period_process_group_dict: dict[int, Any] = {}
        for period, count in period_group_size_dict.items():
            group = self.process_group
            if count != size:
                group, _ = new_subgroups(count, self.process_group)
            self.period_process_group_dict[period] = group

    def average_parameters(self, params: Any) -> None:
        """Count a step, and take the mean if it is time: of parameters, or of parameter groups,
        that have gradients.
        """
        due = [period for period in self.period_process_group_dict if self.step % period == 0]
        if self.step >= self.warmup_steps and due:
            utils.average_parameters_or_parameter_groups(
                params, self.period_process_group_dict[due[-1]]
            )
        self.step += 1


__all__ = ["HierarchicalModelAverager"]
