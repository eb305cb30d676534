"""Other windows on the same elements, and several tensors side by side."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.func._batching._elements import sizes_of
from rushlight.func._batching._rules import of_first, padded, register, shifted, wrap
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


@of_first("reshape")
def _reshape(func, x, rank, *sizes, shape=None):
    if sizes and isinstance(sizes[0], rushlight.dtype):
        fits = rank or sizes[0].itemsize == x.itemsize
        return x.view(sizes[0]) if fits else NotImplemented
    sizes = sizes_of(sizes) if shape is None else shape
    if -1 in sizes and not x.numel():
        return NotImplemented
    method = x.view if func.__name__ == "view" else x.reshape
    return method(x.shape[0], *sizes)


@of_first("expand")
def _expand(func, x, rank, *sizes, size=None):
    sizes = sizes_of(sizes) if size is None else size
    return padded(x, len(sizes)).expand(x.shape[0], *sizes)


@of_first("repeat")
def _repeat(func, x, rank, *sizes):
    sizes = list(sizes_of(sizes))
    if func.__name__ == "tile":
        sizes = [1] * (rank - len(sizes)) + sizes
    return padded(x, len(sizes)).repeat(1, *sizes)


@of_first("flatten")
def _flatten(func, x, rank, start_dim=0, end_dim=-1):
    if not rank:
        return x.unsqueeze(1)
    return x.flatten(shifted(start_dim, rank), shifted(end_dim, rank))


@of_first("squeeze")
def _squeeze(func, x, rank, dim=None):
    if dim is None:
        return x.squeeze([d for d in range(1, x.dim()) if x.shape[d] == 1])
    place = shifted(dim, rank)
    return x.squeeze(place) if rank else x.view(x.shape)


@of_first("unsqueeze")
def _unsqueeze(func, x, rank, dim):
    return x.unsqueeze(shifted(dim, rank + 1))


@of_first("transpose")
def _transpose(func, x, rank, dim0, dim1):
    dim0, dim1 = shifted(dim0, rank), shifted(dim1, rank)
    return x.transpose(dim0, dim1) if rank else x.view(x.shape)


@of_first("t")
def transposed(func: Callable[..., Any], x: Tensor, rank: int) -> Tensor:
    return x.permute(0, *range(rank, 0, -1))


@of_first("permute")
def _permute(func, x, rank, *dims):
    return x.permute(0, *shifted(sizes_of(dims), rank))


@of_first("movedim")
def _movedim(func, x, rank, source, destination):
    source, destination = shifted(source, rank), shifted(destination, rank)
    return x.movedim(source, destination) if rank else x.view(x.shape)


@of_first("diagonal")
def _diagonal(func, x, rank, offset=0, dim1=0, dim2=1):
    return x.diagonal(offset, shifted(dim1, rank), shifted(dim2, rank))


@of_first("diag_embed")
def _diag_embed(func, x, rank, offset=0, dim1=-2, dim2=-1):
    return x.diag_embed(offset, shifted(dim1, rank + 1), shifted(dim2, rank + 1))


@of_first("trace")
def _trace(func, x, rank):
    return x.diagonal(0, 1, 2).sum(-1)


# ---- several tensors of equal rank, along a dim


def _with_equal_ranks(names, place, default=None):
    """Each tensor gets a value for each example; the dim is argument number `place`."""

    def rule(level, func, args, kwargs):
        leaves, structure = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        rank = tensors[0].dim()
        if not rank or any(t.dim() != rank for t in tensors):
            return NotImplemented
        dim = args[place] if len(args) > place else kwargs.get("dim", default)
        if dim is None:
            return NotImplemented
        leaves = [level.all_examples(t) if isinstance(t, Tensor) else t for t in leaves]
        args, kwargs = tree_unflatten(leaves, structure)
        args = args[:place] + args[place + 1 :]
        kwargs.pop("dim", None)
        return wrap(level, func(*args[:place], shifted(dim, rank), *args[place:], **kwargs))

    register(names, rule)


_with_equal_ranks("cat", 1, 0)
_with_equal_ranks("at_dim", 1)
_with_equal_ranks("take_along_dim", 2)


def _stack(level, func, args, kwargs):
    tensors, *rest = args
    dim = rest[0] if rest else kwargs.get("dim", 0)
    rank = tensors[0].dim()
    if any(t.dim() != rank for t in tensors):
        return NotImplemented
    stacked = rushlight.stack([level.all_examples(t) for t in tensors], shifted(dim, rank + 1))
    return level.batched_tensor(stacked)


register("stack", _stack)
