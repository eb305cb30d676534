"""Which part of a DTensor a process has; loaders of checkpoints read that alone."""

from __future__ import annotations

from rushlight.distributed.tensor.placement_types import part_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.distributed.device_mesh import DeviceMesh
    from rushlight.distributed.tensor.placement_types import Placement


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int],
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of this process's part, and the indices in the whole of its first element.

    Args:
        global_shape: the sizes of the whole.
        mesh: the processes.
        placements: how it lies in them, one for each dim of the mesh.
        skip_offset: an empty tuple in place of the indices.

    Returns:
        (0,) and () where this process is not in the mesh.

    Example:
        >>> import rushlight.distributed as dist
        >>> from rushlight.distributed.tensor import Shard
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> compute_local_shape_and_global_offset((4, 6), mesh, [Shard(0)])
        ((4, 6), (0, 0))
        >>> dist.destroy_process_group()
    """
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    lengths, first = part_at(global_shape, mesh.shape, place, placements)
    return tuple(lengths), () if skip_offset else tuple(first)


__all__ = ["compute_local_shape_and_global_offset"]
