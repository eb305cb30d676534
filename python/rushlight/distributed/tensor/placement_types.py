"""How a tensor lies in the processes of one dim of a mesh."""

from __future__ import annotations


class Placement:
    """How a tensor lies in the processes of one dim of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Is it divided, along `dim` if that is given?"""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Does each process have all of it?"""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Is it the sum, or other reduction, of what the processes have?"""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


class Shard(Placement):
    """Divided along a dim: process i has part i of `torch.chunk`.

    Args:
        dim: the dim.
    """

    def __init__(self, dim: int) -> None:
        self.dim: int = dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shard) and self.dim == other.dim

    def __hash__(self) -> int:
        return hash(("Shard", self.dim))

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"


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

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op: str = reduce_op

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partial) and self.reduce_op == other.reduce_op

    def __hash__(self) -> int:
        return hash(("Partial", self.reduce_op))

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"


__all__ = ["Partial", "Placement", "Replicate", "Shard"]
