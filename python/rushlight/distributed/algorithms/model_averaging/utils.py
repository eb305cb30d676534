"""The mean of parameters."""

from __future__ import annotations

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup


def average_parameters(params: Iterable[Tensor], process_group: ProcessGroup | None) -> None:
    """Make parameters the mean of those of all processes.

    Args:
        params: the parameters, in the same order in all processes.
        process_group: the processes; all by default.
    """
    group, by_dtype = resolve(process_group), {}
    for parameter in params:
        by_dtype.setdefault(parameter.dtype, []).append(parameter)
    with rushlight.no_grad():
        for same in by_dtype.values():
            flat = rushlight.cat([parameter.reshape(-1) for parameter in same])
            flat.div_(group.size())
            collectives.all_reduce(flat, group=group)
            for parameter, part in zip(same, flat.split([p.numel() for p in same])):
                parameter.copy_(part.view(parameter.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Those of parameters, or of parameter groups, that have gradients."""
    found = []
    for thing in params:
        if isinstance(thing, dict):
            found += [p for p in thing["params"] if p.grad is not None]
        elif isinstance(thing, rushlight.Tensor):
            found += [thing] if thing.grad is not None else []
        else:
            raise NotImplementedError(f"Parameter input of type {type(thing)} is not supported")
    return found


def average_parameters_or_parameter_groups(
    params: Iterable[Any], process_group: ProcessGroup | None
) -> None:
    """Make those of parameters, or of parameter groups, that have gradients the mean of all."""
    average_parameters(get_params_to_average(params), process_group)


__all__ = [
    "average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average",
]  # fmt: skip
