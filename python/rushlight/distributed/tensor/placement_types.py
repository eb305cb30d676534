"""How a tensor lies in the processes of one dim of a mesh."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Placement:
    """How a tensor lies in the processes of one dim of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Is it a `Shard`, along `dim` if that is given?"""
        return isinstance(self, Shard) and self._divides(dim)

    def is_replicate(self) -> bool:
        """Does each process have all of it?"""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Is it the sum, or other reduction, of what the processes have?"""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def _divides(self, dim: int | None = None) -> bool:
        """Does each process have a part, along `dim` if that is given?"""
        return isinstance(self, _Division) and (dim is None or self.dim == dim)


class _Division(Placement):
    """Divided along a dim, in one of two ways."""

    dim: int

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(("Shard", self.dim))


class Shard(_Division):
    """Divided along a dim: process i has part i of `torch.chunk`.

    Args:
        dim: the dim.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The length of part `rank` of `num_chunks`, and where it begins.

        Args:
            curr_local_size: the length of what is divided.
            num_chunks: in how many parts.
            rank: of the process whose part it is.

        Example:
            >>> from rushlight.distributed.tensor import Shard
            >>> Shard.local_shard_size_and_offset(10, 4, 3)
            (1, 9)
        """
        step = -(-curr_local_size // num_chunks)
        begin = min(rank * step, curr_local_size)
        return min(step, curr_local_size - begin), begin

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"


class _StridedShard(_Division):
    """Divided along a dim that a later dim of the mesh has divided before: as `fully_shard` divides
    parts of tensor parallelism. It is no `Shard`, and `is_shard` says so.

    Args:
        dim: the dim.
        split_factor: in how many parts it was before.
    """

    def __init__(self, dim: int, *, split_factor: int) -> None:
        super().__init__(dim)
        self.split_factor = split_factor

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"


def order_of_division(placements: Sequence[Placement]) -> list[int]:
    """The dims of a mesh in the order in which they divide a tensor."""
    for i, placement in enumerate(placements):
        if isinstance(placement, _StridedShard) and not any(
            type(later) is Shard and later.dim == placement.dim for later in placements[i + 1 :]
        ):
            raise NotImplementedError(
                f"{placement}: no later placement divides dim {placement.dim}, so that a process "
                "would have parts of several stretches: only parts in one piece are supported"
            )
    return sorted(range(len(placements)), key=lambda i: isinstance(placements[i], _StridedShard))


def part_at(
    shape: Sequence[int],
    counts: Sequence[int],
    place: Sequence[int],
    placements: Sequence[Placement],
) -> tuple[list[int], list[int]]:
    """The lengths of the part at a place of a mesh of `counts` processes, and where it begins."""
    lengths, first = list(shape), [0] * len(shape)
    for i in order_of_division(placements):
        placement = placements[i]
        if isinstance(placement, _StridedShard):
            before = math.prod(
                n for n, later in zip(counts[i + 1 :], placements[i + 1 :])
                if later.is_shard(placement.dim)
            )  # fmt: skip
            if before != placement.split_factor:
                raise NotImplementedError(
                    f"{placement}: later placements divide dim {placement.dim} in {before} parts"
                )
        if isinstance(placement, _Division):
            d = placement.dim
            lengths[d], begin = Shard.local_shard_size_and_offset(lengths[d], counts[i], place[i])
            first[d] += begin
    return lengths, first


class Replicate(Placement):
    """The same in each process."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replicate)

    def __hash__(self) -> int:
        return hash("Replicate")

    def __repr__(self) -> str:
        return "Replicate()"


class Partial(Placement):
    """What the processes have is to be reduced.

    Args:
        reduce_op: "sum", "avg", "min", "max" or "product".
    """

    ALL_REDUCE_OPS = ("sum", "avg", "min", "max", "product")
    LINEAR_REDUCE_OPS = ("sum", "avg")  # of which sums of parts are parts of sums

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op: str = reduce_op

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partial) and self.reduce_op == other.reduce_op

    def __hash__(self) -> int:
        return hash(("Partial", self.reduce_op))

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"


_Partial = Partial  # its older name

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
