"""Sharing out among devices and bringing together, as differentiable functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight._ignored import warn_program
from rushlight.autograd import Function
from rushlight.cuda import comm
from rushlight.cuda.comm import place


class Broadcast(Function):
    """The inputs on each device: `apply(target_gpus, *inputs)`, those of the first device first."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Sequence[Any], *inputs: Any) -> tuple[Tensor, ...]:
        ctx.count = len(inputs)
        ctx.home = inputs[0].device if inputs else None
        return tuple(t for copies in comm.broadcast_coalesced(inputs, target_gpus) for t in copies)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        return (None, *ReduceAddCoalesced.apply(ctx.home, ctx.count, *grad_outputs))


class ReduceAddCoalesced(Function):
    """Sums over the devices: `apply(destination, num_inputs, *grads)`, with `num_inputs` gradients
    from each.
    """

    @staticmethod
    def forward(ctx: Any, destination: Any, num_inputs: int, *grads: Any) -> tuple[Tensor, ...]:
        ctx.homes = [grads[i].device for i in range(0, len(grads), num_inputs)]
        of_devices = [grads[i : i + num_inputs] for i in range(0, len(grads), num_inputs)]
        return tuple(comm.reduce_add_coalesced(of_devices, destination))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        return (None, None, *Broadcast.apply(ctx.homes, *grad_outputs))


class Gather(Function):
    """One tensor of those of all devices: `apply(target_device, dim, *inputs)`."""

    @staticmethod
    def forward(ctx: Any, target_device: Any, dim: int, *inputs: Any) -> Tensor:
        ctx.dim, ctx.homes = dim, [input.device for input in inputs]
        ctx.are_numbers = dim == 0 and all(input.dim() == 0 for input in inputs)
        if ctx.are_numbers:
            warn_program(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will "
                "instead unsqueeze and return a vector.",
            )
            inputs = tuple(input.view(1) for input in inputs)
        ctx.sizes = [input.size(dim) for input in inputs]
        return comm.gather(inputs, dim, target_device)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        grads = Scatter.apply(ctx.homes, ctx.sizes, ctx.dim, grad_output)
        if ctx.are_numbers:
            grads = tuple(grad[0] for grad in grads)
        return (None, None, *grads)


class Scatter(Function):
    """The parts for each device: `apply(target_gpus, chunk_sizes, dim, input)`."""

    @staticmethod
    def forward(
        ctx: Any, target_gpus: Sequence[Any], chunk_sizes: Any, dim: int, input: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.dim, ctx.home = dim, input.device
        return tuple(comm.scatter(input, target_gpus, chunk_sizes, dim))

    @staticmethod
    def backward(ctx: Any, *grad_output: Any) -> tuple[Any, ...]:
        return None, None, None, Gather.apply(ctx.home, ctx.dim, *grad_output)


def _get_stream(device):
    """The stream for copies to `device`: they run on its current one."""
    import rushlight

    device = place(device)
    return rushlight.cuda.current_stream(device) if device.type == "cuda" else None
