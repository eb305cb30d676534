"""`vmap` and how its arguments are spread over the tree of what is mapped."""

from rushlight import Tensor
from rushlight._functorch.core import _add_batch_dim, _remove_batch_dim
from rushlight.func import vmap
from rushlight.utils._pytree import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_map_,
    tree_unflatten,
)

__all__ = [
    "Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "tree_flatten", "tree_map_",
    "tree_unflatten", "vmap",
]  # fmt: skip


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """All examples of an output, counted by out_dim; None is for what is the same in all."""
    if out_dim is None:
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(f"vmap({name}, ...): must only return Tensors")
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _get_name(func):
    """The name of a function, for messages."""
    return getattr(func, "__name__", None) or repr(func)
