"""Cross entropy of logits whose classes are divided among processes.

Each process needs the largest logit, the sum of exponentials and the logit of the target class of
every row: three numbers per row travel in place of the logits.
"""

from __future__ import annotations

import contextlib
import threading

import rushlight
from rushlight.autograd import Function
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._reduction import ReduceOp
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._redistribute import sizes_of_parts
from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup


class _State(threading.local):
    active = False


_state = _State()


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Let `cross_entropy` compute with logits that are divided along the classes.

    Within it, `input` is a DTensor that exactly one dim of the mesh divides along the classes;
    `target` has indices of classes and lies as the input without that dim: a plain tensor where it
    is the same in all processes. `weight` is the same in all; there is no `label_smoothing`.
    The result is replicated; with reduction "sum" on a mesh of several dims it is a Partial along
    those that divide the batch.

    Raises:
        NotImplementedError: the reduction is "mean" on a mesh of several dims, or the target has
            probabilities.
        ValueError: the classes are not divided by exactly one dim of the mesh.

    Example:
        >>> import rushlight.distributed as dist
        >>> from rushlight.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> logits = distribute_tensor(rushlight.zeros(2, 4), mesh, [Shard(1)])
        >>> with loss_parallel():
        ...     loss = rushlight.nn.functional.cross_entropy(logits, rushlight.tensor([0, 3]))
        >>> loss.full_tensor()
        tensor(1.3863)
        >>> dist.destroy_process_group()
    """
    before, _state.active = _state.active, True
    try:
        yield
    finally:
        _state.active = before


def is_active() -> bool:
    """Is this inside of loss_parallel?"""
    return _state.active


class _Losses(Function):
    """The loss of each row, 0 where the target is ignored, of this process's classes."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, target: Tensor, weights: Tensor, begin: int, group: ProcessGroup
    ) -> Tensor:
        largest = logits.new_full((*logits.shape[:1], *logits.shape[2:]), float("-inf"))
        if logits.size(1):
            largest = logits.amax(1)
        collectives.all_reduce(largest, ReduceOp.MAX, group)
        shifted = logits - largest.unsqueeze(1)
        exponentials = shifted.exp()
        total = exponentials.sum(1)
        inside = (target >= begin) & (target < begin + logits.size(1))
        place = rushlight.where(inside, target - begin, 0).unsqueeze(1)
        if logits.size(1):
            chosen = rushlight.where(inside, shifted.gather(1, place).squeeze(1), 0.0)
        else:
            chosen = rushlight.zeros_like(total)
        both = rushlight.stack([total, chosen])
        collectives.all_reduce(both, ReduceOp.SUM, group)
        total, chosen = both
        ctx.save_for_backward(exponentials, total, inside, place, weights)
        return (total.log() - chosen) * weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        exponentials, total, inside, place, weights = ctx.saved_tensors
        gradient = exponentials / total.unsqueeze(1)
        if gradient.size(1):
            gradient.scatter_add_(1, place, -inside.to(gradient.dtype).unsqueeze(1))
        return gradient * (grad * weights).unsqueeze(1), None, None, None, None


def _dim_of_classes(input):
    """The dim of the mesh that divides the classes, which are dim 1, or 0 of a single row."""
    classes = 1 if len(input.shape) > 1 else 0
    dims = [i for i, placement in enumerate(input.placements) if placement._divides(classes)]
    if len(dims) != 1:
        raise ValueError(
            f"loss_parallel: exactly one dim of the mesh must divide the classes, dim {classes}; "
            f"the input lies as {input.placements}"
        )
    if any(placement.is_partial() for placement in input.placements):
        raise ValueError(f"loss_parallel: the input is a Partial: {input.placements}")
    return classes, dims[0]


def _places_of_target(input, classes, mesh_dim):
    placements = []
    for i, placement in enumerate(input.placements):
        if i == mesh_dim:
            placement = Replicate()
        elif placement._divides() and placement.dim > classes:
            placement = Shard(placement.dim - 1)
        placements.append(placement)
    return tuple(placements)


def _local_target(target, placements):
    if isinstance(target, DTensor):
        if target.placements != placements:
            raise RuntimeError(
                f"loss_parallel: the target must lie as {placements}, got {target.placements}"
            )
        return target.to_local()
    if any(placement._divides() for placement in placements):
        raise ValueError(
            f"loss_parallel: give the target as a DTensor that lies as {placements}: of a plain "
            "tensor it is not clear whether it is the whole or a part"
        )
    return target


def _weights(weight, target, ignored, dtype, name="loss_parallel"):
    """The factor of each row: 0 where its target is ignored."""
    counts = (~ignored).to(dtype)
    if weight is None:
        return counts
    if isinstance(weight, DTensor):
        if not all(placement.is_replicate() for placement in weight.placements):
            raise ValueError(f"{name}: weight must be replicated, got {weight.placements}")
        weight = weight.to_local()
    return counts * weight.detach()[rushlight.where(ignored, 0, target)]


def cross_entropy(
    input: DTensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> DTensor:
    """torch.nn.functional.cross_entropy of divided classes; see loss_parallel."""
    if label_smoothing:
        raise NotImplementedError("loss_parallel: label_smoothing is not supported")
    if not isinstance(input, DTensor):
        raise TypeError(f"loss_parallel: input must be a DTensor, got {type(input).__name__}")
    if target.is_floating_point():
        raise NotImplementedError("loss_parallel: targets that are probabilities")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    mesh = input.device_mesh
    if reduction == "mean" and mesh.ndim > 1:
        raise NotImplementedError(
            "loss_parallel: reduction 'mean' on a mesh of several dims: use 'sum' or 'none'"
        )
    classes, mesh_dim = _dim_of_classes(input)
    placements = _places_of_target(input, classes, mesh_dim)
    rows = _local_target(target, placements)
    count, group = input.shape[classes], mesh.get_group(mesh_dim)
    begin = sum(sizes_of_parts(count, group.size())[: group.rank()])
    local = input.to_local()
    if classes == 0:
        local, rows = local.unsqueeze(0), rows.unsqueeze(0)
    ignored = rows == ignore_index
    if bool(((rows < 0) | (rows >= count)).logical_and(~ignored).any()):
        raise IndexError(f"Target is out of bounds: a class is not in [0, {count})")
    weights = _weights(weight, rows, ignored, local.dtype)
    losses = _Losses.apply(local, rows, weights, begin, group)
    if reduction == "none":
        losses = losses.squeeze(0) if classes == 0 else losses
        return DTensor._make(losses, mesh, placements, target.shape)
    result = losses.sum()
    if reduction == "mean":
        result = result / weights.sum()
    sums = tuple(Partial() if placement._divides() else placement for placement in placements)
    return DTensor._make(result, mesh, sums, ())


__all__ = ["loss_parallel"]
