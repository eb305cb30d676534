"""Hooks that reduce the gradients of FullyShardedDataParallel as they are, or in half as many
bytes.
"""

from __future__ import annotations

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import get_world_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup


class DefaultState:
    """What the hooks need to know. Gradients are divided in two steps, before and after they are
    added up, so that neither overflows nor underflows.

    Args:
        process_group: the processes.
    """

    def __init__(self, process_group: ProcessGroup) -> None:
        if process_group is None:
            raise ValueError(f"Expected to pass in an explicit ProcessGroup to {self}.")
        self.process_group = process_group
        self.world_size: int = get_world_size(process_group)
        before = 1
        while self.world_size % before == 0 and self.world_size > before * before:
            before *= 2
        self.gradient_predivide_factor: float = float(before)
        self.gradient_postdivide_factor: float = self.world_size / before


class LowPrecisionState(DefaultState):
    """As DefaultState, for hooks that send fewer bytes.

    Args:
        process_group: the processes.
        parameter_type: the dtype that reduced gradients get.
    """

    def __init__(
        self, process_group: ProcessGroup, parameter_type: rushlight.dtype = rushlight.float32
    ) -> None:
        super().__init__(process_group)
        self.parameter_type = parameter_type


def allreduce_hook(state: DefaultState, grad: Tensor) -> None:
    """The mean of gradients, in place: for NO_SHARD.

    Args:
        state: the processes.
        grad: the gradients, one behind the other.
    """
    grad.div_(state.gradient_predivide_factor)
    collectives.all_reduce(grad, group=state.process_group)
    grad.div_(state.gradient_postdivide_factor)


def reduce_scatter_hook(state: DefaultState, grad: Tensor, output: Tensor) -> None:
    """This process's part of the mean of gradients.

    Args:
        state: the processes.
        grad: the gradients, one behind the other.
        output: for the part.
    """
    grad.div_(state.gradient_predivide_factor)
    collectives.reduce_scatter_tensor(output, grad, group=state.process_group)
    output.div_(state.gradient_postdivide_factor)


def _reduce_as(dtype, state, grad, output):
    grad.data = grad.data.to(dtype)
    if output is None:
        allreduce_hook(state, grad)
        grad.data = grad.data.to(state.parameter_type)
    else:
        output.data = output.data.to(dtype)
        reduce_scatter_hook(state, grad, output)
        output.data = output.data.to(state.parameter_type)


def fp16_compress_hook(
    state: LowPrecisionState, grad: Tensor, output: Tensor | None = None
) -> None:
    """The mean of gradients as float16, which halves what is sent.

    Args:
        state: the processes, and the dtype of the result.
        grad: the gradients, one behind the other.
        output: for this process's part; None for NO_SHARD, whose gradients change in place.
    """
    _reduce_as(rushlight.float16, state, grad, output)


def bf16_compress_hook(
    state: LowPrecisionState, grad: Tensor, output: Tensor | None = None
) -> None:
    """The mean of gradients as bfloat16; see fp16_compress_hook."""
    _reduce_as(rushlight.bfloat16, state, grad, output)
