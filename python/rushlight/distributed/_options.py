"""What methods of a ProcessGroup take, as torch has it: an object for each operation."""

from __future__ import annotations

import datetime
import enum

from rushlight._set_module import set_module
from rushlight.distributed._reduction import ReduceOp


class _Options:
    def __init__(self) -> None:
        self.timeout = datetime.timedelta(milliseconds=-1)
        self.asyncOp = True


class AllreduceOptions(_Options):
    """Of ProcessGroup.allreduce."""

    def __init__(self) -> None:
        super().__init__()
        self.reduceOp = ReduceOp.SUM


class BroadcastOptions(_Options):
    """Of ProcessGroup.broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = self.rootTensor = 0


class BuiltinCommHookType(enum.Enum):
    """The hooks that DistributedDataParallel knows by name."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


set_module("rushlight.distributed", BuiltinCommHookType)
