"""What methods of a ProcessGroup take, as torch has it: an object for each operation."""

from __future__ import annotations

import datetime
import enum

from rushlight._set_module import set_module
from rushlight.distributed._reduction import ReduceOp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Options:
    """What all have: a time-out, of which a negative one means that of the group."""

    def __init__(self) -> None:
        self.timeout = datetime.timedelta(milliseconds=-1)
        self.asyncOp = True


class _ReducingOptions(_Options):
    def __init__(self) -> None:
        super().__init__()
        self.reduceOp = ReduceOp.SUM


class _RootedOptions(_Options):
    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0


class AllreduceOptions(_ReducingOptions):
    """Of ProcessGroup.allreduce: `reduceOp`, `timeout` and `asyncOp`.

    Example:
        >>> options = rushlight.distributed.AllreduceOptions()
        >>> options.reduceOp = rushlight.distributed.ReduceOp.MAX
    """


class AllreduceCoalescedOptions(AllreduceOptions):
    """Of ProcessGroup.allreduce_coalesced."""


class ReduceScatterOptions(_ReducingOptions):
    """Of ProcessGroup.reduce_scatter."""


class ReduceOptions(_ReducingOptions):
    """Of ProcessGroup.reduce: `rootRank` is the member that gets the result."""

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = self.rootTensor = 0


class BroadcastOptions(_RootedOptions):
    """Of ProcessGroup.broadcast: `rootRank` is the member that gives."""

    def __init__(self) -> None:
        super().__init__()
        self.rootTensor = 0


class GatherOptions(_RootedOptions):
    """Of ProcessGroup.gather: `rootRank` is the member that gets."""


class ScatterOptions(_RootedOptions):
    """Of ProcessGroup.scatter: `rootRank` is the member that gives."""


class AllgatherOptions(_Options):
    """Of ProcessGroup.allgather and _allgather_base."""


class AllToAllOptions(_Options):
    """Of ProcessGroup.alltoall and alltoall_base."""


class BarrierOptions(_Options):
    """Of ProcessGroup.barrier; `device_ids` and `device` name GPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.device_ids: list[int] = []
        self.device = None


def options(name: str, async_op: bool, **fields: Any) -> Any:
    """What a method of a program's own group is given.

    Args:
        name: of the class, without "Options".
        async_op: does nobody wait for the end at once?
        fields: what to set.
    """
    made = globals()[f"{name}Options"]()
    made.asyncOp = async_op
    for field, value in fields.items():
        setattr(made, field, value)
    return made


class BuiltinCommHookType(enum.Enum):
    """The hooks that DistributedDataParallel knows by name."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


set_module("rushlight.distributed", BuiltinCommHookType)
