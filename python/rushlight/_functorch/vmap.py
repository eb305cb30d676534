"""`vmap` and how its arguments are spread over the tree of what is mapped."""

from rushlight import Tensor
from rushlight.func import vmap
from rushlight.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_map_,
    tree_unflatten,
)

__all__ = [
    "Tensor", "_broadcast_to_and_flatten", "tree_flatten", "tree_map_", "tree_unflatten", "vmap",
]  # fmt: skip


def _add_batch_dim(tensor, dim, level):
    """Refused: stand-ins for examples are made by `vmap` alone."""
    raise NotImplementedError(f"_add_batch_dim(dim={dim}, level={level}) of {tuple(tensor.shape)}")


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """Refused, as there is nothing to remove: see `_add_batch_dim`."""
    raise NotImplementedError(
        f"_maybe_remove_batch_dim(vmap_level={vmap_level}, out_dim={out_dim}) in {name}"
    )


def _get_name(func):
    """The name of a function, for messages."""
    return getattr(func, "__name__", None) or repr(func)
