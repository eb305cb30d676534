"""From one placement to another: what processes send each other for it, and its gradient."""

from __future__ import annotations

import rushlight
from rushlight.autograd import Function
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._reduction import ReduceOp
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Replicate,
    Shard,
    order_of_division,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup
    from rushlight.distributed.device_mesh import DeviceMesh
    from rushlight.distributed.tensor import Placement


def sizes_of_parts(length: Any, count: Any) -> Any:
    """Lengths of the parts of `torch.chunk`, with zeros for processes that get none."""
    return [Shard.local_shard_size_and_offset(length, count, i)[0] for i in range(count)]


def part_of(tensor: Tensor, dim: int, group: ProcessGroup | None) -> Any:
    """This process's part of a tensor along a dim."""
    size, begin = Shard.local_shard_size_and_offset(tensor.size(dim), group.size(), group.rank())
    return tensor.narrow(dim, begin, size).contiguous()


def gather_parts(local: Any, dim: int, length: Any, group: ProcessGroup | None) -> Any:
    """The whole, of `length` along a dim, in each process."""
    moved = local.movedim(dim, 0).contiguous()
    sizes = sizes_of_parts(length, group.size())
    parts = [moved.new_empty((n, *moved.shape[1:])) for n in sizes]
    collectives.all_gather(parts, moved, group)
    return rushlight.cat(parts).movedim(0, dim).contiguous()


def _reduced(local, partial, group):
    result = local.contiguous().clone()
    collectives.all_reduce(result, ReduceOp[partial.reduce_op.upper()], group)
    return result


def local_of(local: Any, shape: Any, mesh: DeviceMesh, current: Any, target: Any) -> Any:
    """This process's part under the placements `target`, from that under `current`."""
    if tuple(current) == tuple(target) or mesh.get_coordinate() is None:
        return local
    if mesh.ndim == 1 and current[0].is_partial() and target[0]._divides():
        return _reduce_scattered(local, current[0], target[0].dim, mesh.get_group())
    # What was divided last is put together first.
    order, order_after = order_of_division(current), order_of_division(target)
    first = next(i for i, (a, b) in enumerate(zip(current, target)) if a != b)
    if order != order_after or order != sorted(order):
        first = 0
    for n in reversed(range(first, mesh.ndim)):
        i = order[n]
        group, placement = mesh.get_group(i), current[i]
        if placement.is_partial():
            local = _reduced(local, placement, group)
        elif placement._divides():
            length = _length(shape, placement.dim, mesh, current, order[:n])
            local = gather_parts(local, placement.dim, length, group)
    for i in order_after[first:]:
        group, placement = mesh.get_group(i), target[i]
        if placement._divides():
            local = part_of(local, placement.dim, group)
        elif placement.is_partial() and group.rank() != 0:
            if placement.reduce_op != "sum":
                raise NotImplementedError(f"redistribute: to {placement}")
            local = rushlight.zeros_like(local)
    return local


def _length(shape, dim, mesh, placements, before):
    """The length of a dim in what the mesh dims `before` have left of it."""
    length = shape[dim]
    for i in before:
        if placements[i]._divides(dim):
            group = mesh.get_group(i)
            length, _ = Shard.local_shard_size_and_offset(length, group.size(), group.rank())
    return length


def _reduce_scattered(local, partial, dim, group):
    moved = local.movedim(dim, 0).contiguous()
    parts = list(moved.split(sizes_of_parts(moved.size(0), group.size())))
    result = rushlight.empty_like(parts[group.rank()])
    collectives.reduce_scatter(result, parts, ReduceOp[partial.reduce_op.upper()], group)
    return result.movedim(0, dim).contiguous()


def of_gradient(placements: Sequence[Placement]) -> Any:
    """How the gradient of a tensor lies: that of something to be summed is the same in all."""
    return tuple(Replicate() if p.is_partial() else p for p in placements)


class Redistribute(Function):
    """From placements to placements, with a gradient."""

    @staticmethod
    def forward(
        ctx: Any, local: Any, shape: Any, mesh: DeviceMesh, current: Any, target: Any
    ) -> Any:
        ctx.way = shape, mesh, of_gradient(target), of_gradient(current)
        result = local_of(local, shape, mesh, current, target)
        return result.view_as(result) if result is local else result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        shape, mesh, current, target = ctx.way
        return local_of(grad.contiguous(), shape, mesh, current, target), None, None, None, None


class UsedInParts(Function):
    """The same tensor, in processes of which each computes a part with it: its gradient is the sum
    of theirs.
    """

    @staticmethod
    def forward(ctx: Any, local: Any, group: ProcessGroup | None) -> Any:
        ctx.group = group
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _reduced(grad, Partial(), ctx.group), None


__all__ = ["Redistribute", "Shard", "UsedInParts", "gather_parts", "local_of", "part_of"]
