"""What backward needs of a module's inputs, in parts."""

from __future__ import annotations

import functools

from rushlight import Tensor
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor.placement_types import Replicate, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed.device_mesh import DeviceMesh
    from rushlight.nn import Module


def input_reshard(
    module: Module, tp_device_mesh: DeviceMesh, input_reshard_dim: int | None = None
) -> Module:
    """Let a module keep for backward a part of each tensor in each process, where all have the
    same, as under tensor parallelism.

    Args:
        module: the module.
        tp_device_mesh: the processes, a mesh of one dim.
        input_reshard_dim: the dim along which tensors are divided; None changes nothing.

    Returns:
        The module.
    """
    if input_reshard_dim is None:
        return module
    pack = functools.partial(_pack, tp_device_mesh, input_reshard_dim)
    unpack = functools.partial(_unpack, tp_device_mesh)
    active: list[saved_tensors_hooks] = []

    def before(module: Module, inputs: Any) -> None:
        active.append(saved_tensors_hooks(pack, unpack))
        active[-1].__enter__()

    def after(module: Module, inputs: Any, output: Any) -> None:
        active.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(before)
    module.register_forward_hook(after, always_call=True)
    return module


def _pack(mesh, dim, tensor):
    """A DTensor in parts, and whether it was one before; other tensors as they are."""
    was = isinstance(tensor, DTensor)
    if not isinstance(tensor, Tensor) or not -tensor.dim() <= dim < tensor.dim():
        return tensor
    if was and not all(placement.is_replicate() for placement in tensor.placements):
        return tensor
    if tensor.size(dim) < mesh.size():
        return tensor
    whole = tensor if was else DTensor.from_local(tensor.detach(), mesh)
    return whole.redistribute(placements=[Shard(dim)]), was


def _unpack(mesh, kept):
    if not isinstance(kept, tuple):
        return kept
    parts, was = kept
    whole = parts.redistribute(placements=[Replicate()])
    return whole if was else whole.to_local()


__all__ = ["input_reshard"]
