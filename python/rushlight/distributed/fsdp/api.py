"""The options of `FullyShardedDataParallel`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from rushlight import dtype
from rushlight.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]  # fmt: skip


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
    _module_classes_to_ignore: tuple = (_BatchNorm,)


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
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """How the optimizer's state of a process is saved.

    Args:
        offload_to_cpu: False.
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """How an optimizer's shards are saved."""

    _use_dtensor: bool = False


class StateDictSettings(NamedTuple):
    """In which form the states of modules and of their optimizers are saved."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
