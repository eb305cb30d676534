"""Sharing out and bringing together as differentiable functions, on the one device there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.nn.parallel.scatter_gather import _check


class Broadcast(Function):
    """The inputs on each device: `apply(target_gpus, *inputs)`."""

    @staticmethod
    def forward(ctx: Any, target_gpus: Sequence[int], *inputs: Any) -> tuple[Tensor]:
        _check(target_gpus)
        return tuple(input.view_as(input) for input in inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[None, Tensor]:
        return (None, *grad_outputs)


class ReduceAddCoalesced(Function):
    """Sums over the devices: `apply(destination, num_inputs, *grads)`, with `num_inputs` gradients
    from each.
    """

    @staticmethod
    def forward(ctx: Any, destination: int, num_inputs: int, *grads: Any) -> tuple[Tensor]:
        _check(range(0, len(grads), num_inputs))
        return tuple(grad.view_as(grad) for grad in grads)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[None, None, Tensor]:
        return (None, None, *grad_outputs)


class Gather(Function):
    """One tensor of those of all devices: `apply(target_device, dim, *inputs)`."""

    @staticmethod
    def forward(ctx: Any, target_device: int, dim: int, *inputs: Any) -> Tensor:
        _check(inputs)
        ctx.is_number = inputs[0].dim() == 0
        return inputs[0].reshape(1) if ctx.is_number else inputs[0].view_as(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, None, Tensor]:
        return None, None, grad_output[0] if ctx.is_number else grad_output


class Scatter(Function):
    """The parts for each device: `apply(target_gpus, chunk_sizes, dim, input)`."""

    @staticmethod
    def forward(
        ctx: Any, target_gpus: Sequence[int], chunk_sizes: Any, dim: int, input: Tensor
    ) -> tuple[Tensor]:
        _check(target_gpus)
        return (input.view_as(input),)

    @staticmethod
    def backward(ctx: Any, *grad_output: Any) -> tuple[None, None, None, Tensor]:
        return (None, None, None, *grad_output)


def _get_stream(device):
    """The stream for copies to `device`: the CPU has none."""
    return None
