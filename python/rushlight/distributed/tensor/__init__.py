"""Tensors that lie in parts in several processes."""

from rushlight._set_module import set_module
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.tensor._creation import empty, full, ones, rand, randn, zeros
from rushlight.distributed.tensor._dtensor import (
    DTensor,
    distribute_module,
    distribute_tensor,
)
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
)
from rushlight.serialization import add_safe_globals as _add_safe_globals

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "rand",
    "randn",
    "zeros",
]

set_module(
    __name__, DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
)
# Files of DTensors name them.
_add_safe_globals([DTensor, DeviceMesh, Partial, Replicate, Shard, _StridedShard])
