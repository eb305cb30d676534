"""The class that shards a module by wrapping it, which is refused, and its settings, which can be
made and read.
"""

import enum
from dataclasses import dataclass

from rushlight import dtype
from rushlight.nn import Module

_REFUSED = (
    "a module is not sharded by wrapping it; nn.parallel.DistributedDataParallel trains a copy in"
    " each process"
)


class ShardingStrategy(enum.Enum):
    """What is sharded."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When the next parameters are gathered."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """In which form a state is saved."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


@dataclass
class MixedPrecision:
    """The dtypes of parameters, of gradients as they are added up, and of buffers."""

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    buffer_dtype: dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: tuple = ()


@dataclass
class CPUOffload:
    """Are parameters kept on the CPU?"""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How a state is saved."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """How a whole state is saved."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """How the state of a process is saved."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """How shards are saved."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How an optimizer's state is saved."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """How an optimizer's whole state is saved."""

    rank0_only: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """How an optimizer's shards are saved."""

    _use_dtensor: bool = False


class FullyShardedDataParallel(Module):
    """Refused: no module is one."""

    def __init__(self, module, *args, **kwargs):
        raise NotImplementedError(
            f"FullyShardedDataParallel({type(module).__name__}): {_REFUSED}"
        )

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The sharded modules in a module: none is."""
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)][
            : 1 if root_only else None
        ]


__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalStateDictConfig", "MixedPrecision",
    "OptimStateDictConfig", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictType",
]  # fmt: skip
