"""Shows which process has which part of a DTensor."""

from __future__ import annotations

from rushlight.distributed.tensor.placement_types import part_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.distributed.tensor import DTensor


def _part(dtensor, place):
    """(first, last) along each dim of the part of the process at a place of the mesh."""
    lengths, first = part_at(
        dtensor.shape, dtensor.device_mesh.mesh.shape, place, dtensor.placements
    )
    return tuple((low, low + n - 1) for low, n in zip(first, lengths))


def visualize_sharding(dtensor: DTensor, header: str = "", use_rich: bool = False) -> None:
    """Print which process has which part of a DTensor, in the first process of its mesh.

    Args:
        dtensor: of one dim or two.
        header: a line above.
        use_rich: False.

    Example:
        >>> import rushlight
        >>> import rushlight.distributed as dist
        >>> from rushlight.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> visualize_sharding(distribute_tensor(rushlight.ones(4, 2), mesh, [Shard(0)]))
        Row 0-3  Col 0-1  cpu:0
        >>> dist.destroy_process_group()
    """
    if use_rich:
        raise NotImplementedError("visualize_sharding: use_rich is not supported")
    if len(dtensor.shape) not in (1, 2):
        raise RuntimeError("visualize sharding supports only 1D or 2D DTensor")
    mesh = dtensor.device_mesh
    place = mesh.get_coordinate()
    if dtensor.numel() == 0 or place is None or any(place):
        return
    owners: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for index, rank in enumerate(mesh.mesh.flatten().tolist()):
        at = []
        for size in reversed(mesh.mesh.shape):
            index, here = divmod(index, size)
            at.insert(0, here)
        owners.setdefault(_part(dtensor, at), []).append(f"{mesh.device_type}:{rank}")
    if header:
        print(header)
    for part, names in sorted(owners.items()):
        bounds = [f"{what} {low}-{high}" for what, (low, high) in zip(("Row", "Col"), part)]
        print("  ".join([*bounds, ", ".join(names)]))


__all__ = ["visualize_sharding"]
