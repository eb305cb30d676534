"""Values and functions of one process for all of them, with its failure if it fails."""

from __future__ import annotations

import dataclasses

from rushlight.distributed import _objects as objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed import ProcessGroup


@dataclasses.dataclass
class SyncPayload:
    """What a process tells the others.

    Args:
        stage_name: in which step of the program.
        success: did it go well?
        payload: the value.
        exception: why not.
    """

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None


def _called(data_or_fn, stage_name, success=True):
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:  # which all processes raise
        return SyncPayload(stage_name, False, None, error)


def broadcast(
    data_or_fn: Any,
    *,
    success: bool = True,
    stage_name: str | None = None,
    rank: int = 0,
    pg: ProcessGroup | None = None,
) -> Any:
    """The value of one process, or what a function returns there, in all.

    Args:
        data_or_fn: the value or function.
        success: False: all raise.
        stage_name: a name for the message.
        rank: whose it is, in the group.
        pg: the processes; None: this one alone.

    Raises:
        RuntimeError: the function raised, or `success` is False.
    """
    if not success and data_or_fn is not None:
        raise AssertionError("broadcast: success=False comes without a value or function")
    told = [SyncPayload(stage_name, success, None)]
    if rank == (0 if pg is None else pg.rank()):
        told = [_called(data_or_fn, stage_name, success)]
    if pg is not None:
        objects.broadcast_object_list(told, group=pg, group_src=rank)
    (found,) = told
    if not found.success:
        stage = "" if stage_name is None else f": stage {found.stage_name}"
        why = "" if found.exception is None else f": exception {found.exception}"
        raise RuntimeError(f"Rank {rank} failed{stage}{why}") from found.exception
    return found.payload


def all_gather(
    data_or_fn: Any | Callable[[], Any],
    stage_name: str | None = None,
    pg: ProcessGroup | None = None,
) -> list[Any]:
    """The values of all processes, or what a function returns in each, in all.

    Args:
        data_or_fn: the value or function.
        stage_name: the same in all.
        pg: the processes; None: this one alone.

    Raises:
        RuntimeError: a function raised, or the processes are in different stages.
    """
    mine = _called(data_or_fn, stage_name)
    told: list[Any] = [mine]
    if pg is not None:
        told = [None] * pg.size()
        all_gather_object_enforce_type(pg, told, mine)
    problems = [
        f"rank {rank} is in stage {one.stage_name}, rank 0 in {told[0].stage_name}"
        for rank, one in enumerate(told)
        if one.stage_name != told[0].stage_name
    ]
    problems += [
        f"rank {rank} failed with exception {one.exception}"
        for rank, one in enumerate(told)
        if not one.success
    ]
    if problems:
        cause = next((one.exception for one in told if one.exception is not None), None)
        raise RuntimeError(f"all_gather: {'; '.join(problems)}") from cause
    return [one.payload for one in told]


def all_gather_object_enforce_type(
    pg: ProcessGroup,
    object_list: list[Any],
    obj: Any,
    type_checker: Callable[[Any, Any], bool] = lambda x, y: type(x) is type(y),
) -> None:
    """all_gather_object of objects of one type.

    Args:
        pg: the processes.
        object_list: takes the objects.
        obj: this process's.
        type_checker: type_checker(a, b): are they of one type?

    Raises:
        TypeError: they are not.
    """
    objects.all_gather_object(object_list, obj, pg)
    for rank, one in enumerate(object_list):
        if not type_checker(object_list[0], one):
            raise TypeError(
                f"Object type at index {rank} is {type(one)}, while first object type is "
                f"{type(object_list[0])}"
            )


__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]
