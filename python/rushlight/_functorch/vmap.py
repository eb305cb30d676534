"""`vmap` and how its arguments are spread over the tree of what is mapped."""

from rushlight.func import vmap
from rushlight.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_map_,
    tree_unflatten,
)

__all__ = ["_broadcast_to_and_flatten", "tree_flatten", "tree_map_", "tree_unflatten", "vmap"]


def _add_batch_dim(tensor, dim, level):
    """Refused: stand-ins for examples are made by `vmap` alone."""
    raise NotImplementedError(f"_add_batch_dim(dim={dim}, level={level}) of {tuple(tensor.shape)}")
