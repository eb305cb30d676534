"""Ways to reduce the gradients of DistributedDataParallel other than as they are."""

from __future__ import annotations

import enum

from rushlight.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# The names that torch gives them here.
debugging: ModuleType = debugging_hooks
default: ModuleType = default_hooks
post_localSGD: ModuleType = post_localSGD_hook
powerSGD: ModuleType = powerSGD_hook
quantization: ModuleType = quantization_hooks


class _Registers:
    """Registers a hook: `value(model=model, state=process_group)`."""

    def __init__(self, hook: Any, rank: int | None = None) -> None:
        self.hook: Any = hook
        self.rank = rank

    def __call__(self, model: Any, state: Any, **settings: Any) -> None:
        if self.rank is not None:
            settings = {"matrix_approximation_rank": self.rank, **settings}
            state = powerSGD_hook.PowerSGDState(process_group=state, **settings)
        model.register_comm_hook(state, self.hook)


class DDPCommHookType(enum.Enum):
    """Hooks by name."""

    ALLREDUCE = _Registers(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Registers(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Registers(default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = _Registers(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _Registers(quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = _Registers(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _Registers(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _Registers(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _Registers(powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = _Registers(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook by its name.

    Args:
        comm_hook_type: the name.
        model: a DistributedDataParallel.
        state: the processes; all by default.
    """
    comm_hook_type.value(model=model, state=state)


__all__ = [
    "DDPCommHookType", "debugging_hooks", "default_hooks", "post_localSGD_hook", "powerSGD_hook",
    "quantization_hooks", "register_ddp_comm_hook",
]  # fmt: skip
