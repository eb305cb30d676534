"""How a DTensor lies, as one object: libraries compare and print it."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import rushlight
    from rushlight.distributed.device_mesh import DeviceMesh
    from rushlight.distributed.tensor.placement_types import Placement


class TensorMeta(NamedTuple):
    """Shape, strides and dtype of the whole."""

    shape: rushlight.Size
    stride: Sequence[int]
    dtype: rushlight.dtype


class DTensorSpec(NamedTuple):
    """The mesh, a placement for each of its dims, and what the whole is."""

    mesh: DeviceMesh
    placements: Sequence[Placement]
    tensor_meta: TensorMeta | None = None

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def shape(self) -> rushlight.Size:
        """The sizes of the whole."""
        return self.tensor_meta.shape

    @property
    def stride(self) -> Sequence[int]:
        """The strides of the whole."""
        return self.tensor_meta.stride

    @property
    def ndim(self) -> int:
        """How many dims the whole has."""
        return len(self.shape)

    @property
    def num_shards(self) -> int:
        """In how many parts it lies."""
        count = 1
        for i, placement in enumerate(self.placements):
            count *= self.mesh.size(i) if placement._divides() else 1
        return count

    @property
    def dim_map(self) -> list[int]:
        """For each dim of the whole, the dim of the mesh that divides it, or -1."""
        dims = [-1] * self.ndim
        for i, placement in enumerate(self.placements):
            if placement._divides():
                dims[placement.dim] = i
        return dims

    def is_replicated(self) -> bool:
        """Does each process have all of it?"""
        return all(placement.is_replicate() for placement in self.placements)


__all__ = ["DTensorSpec", "TensorMeta"]
