"""Copies among GPUs, and sums over them."""

from __future__ import annotations

import rushlight
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import Device

__all__ = [
    "broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter",
]  # fmt: skip


def place(device: Device) -> Any:
    """The device that a number names, a GPU, or a name; -1 is the CPU, and None the current GPU."""
    if device is None:
        return rushlight.device("cuda", rushlight.cuda.current_device())
    if isinstance(device, int):
        return rushlight.device("cpu" if device < 0 else f"cuda:{device}")
    return rushlight.device(device)


def _one_of(function, devices, out):
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"{function}: exactly one of 'devices' and 'out' must be given, got devices={devices} "
            f"and out={out}"
        )


def broadcast(
    tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Copy a tensor to several devices.

    Args:
        tensor: the tensor, which is the result for its own device.
        devices: one for each copy.
        out: tensors to copy to, instead of devices.
    """
    _one_of("broadcast", devices, out)
    if out is not None:
        for copy in out:
            copy.copy_(tensor, non_blocking=True)
        return tuple(out)
    return tuple(tensor.to(place(device), non_blocking=True) for device in devices)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Copy several tensors to several devices.

    Args:
        tensors: the tensors, all on one device.
        devices: one for each list of copies.
        buffer_size: bytes that are copied together; copies need no buffer here.
    """
    return [tuple(broadcast(t, [device])[0] for t in tensors) for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Device = None) -> Tensor:
    """Add tensors of several devices up.

    Args:
        inputs: one of each device, of equal sizes.
        destination: where the sum is; the current GPU by default.
    """
    home = place(destination)
    sizes = inputs[0].shape
    for input in inputs:
        if input.shape != sizes:
            raise ValueError(f"reduce_add: expected tensors of {sizes}, got one of {input.shape}")
    total = inputs[0].to(home)
    for input in inputs[1:]:
        total = total + input.to(home)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Device = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """Add several tensors up over several devices.

    Args:
        inputs: the tensors of each device.
        destination: where the sums are; the current GPU by default.
        buffer_size: bytes that are added up together; sums need no buffer here.
    """
    return tuple(reduce_add(of_all, destination) for of_all in zip(*inputs))


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Cut a tensor into a part for each device.

    Args:
        tensor: the tensor.
        devices: one for each part.
        chunk_sizes: the sizes of the parts in `dim`; as equal as `chunk` makes them by default.
        dim: the dim along which it is cut.
        streams: those on which copies run, or None for the current one, for each device.
        out: tensors that the parts are copied to, whose sizes tell where to cut.
    """
    _one_of("scatter", devices, out)
    if out is not None:
        if chunk_sizes is not None:
            raise RuntimeError("scatter: 'chunk_sizes' follow from 'out' and cannot be given too")
        for part, copy in zip(tensor.split([t.size(dim) for t in out], dim), out):
            copy.copy_(part, non_blocking=True)
        return tuple(out)
    parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else (
        tensor.split(list(chunk_sizes), dim))  # fmt: skip
    results = []
    for i, part in enumerate(parts):
        home = place(devices[i])
        stream = streams[i] if streams is not None else None
        if stream is None:
            results.append(part.to(home, non_blocking=True))
            continue
        with rushlight.cuda.stream(stream):
            results.append(part.to(home, non_blocking=True))
    return tuple(results)


def gather(
    tensors: Sequence[Tensor],
    dim: int = 0,
    destination: Device = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Join tensors of several devices along a dim.

    Args:
        tensors: one of each device.
        dim: the dim.
        destination: where the result is; the current GPU by default, -1 for the CPU.
        out: the tensor to write to, instead of a destination.
    """
    if out is not None and destination is not None:
        raise RuntimeError("gather: 'destination' is that of 'out' and cannot be given too")
    home = out.device if out is not None else place(destination)
    moved = [t.to(home, non_blocking=True) for t in tensors]
    return rushlight.cat(moved, dim) if out is None else rushlight.cat(moved, dim, out=out)


set_module("rushlight.cuda.comm", place)
set_module(
    "rushlight.nn.parallel.comm", broadcast, broadcast_coalesced, gather, reduce_add,
    reduce_add_coalesced, scatter,
)  # fmt: skip
