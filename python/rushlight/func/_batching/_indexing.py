"""Indexing."""

import rushlight
from rushlight import Tensor
from rushlight.func._batching._composed import at_own_index
from rushlight.func._batching._elements import pointwise
from rushlight.func._batching._rules import FUNCTIONS, padded, register, shifted


def _as_tensor(index):
    """A list of places as a tensor."""
    if isinstance(index, (list, range)) and all(type(place) is int for place in index):
        return rushlight.tensor(list(index), dtype=rushlight.int64)
    return index


def _getitem(level, func, args, kwargs):
    tensor, index = args
    index = [_as_tensor(i) for i in (index if isinstance(index, tuple) else [index])]
    if any(isinstance(i, (list, range)) for i in index):
        return NotImplemented
    x = level.examples(tensor)
    found = [level.examples(i) for i in index]
    advanced = [k for k, i in enumerate(index) if isinstance(i, Tensor)]
    if advanced:  # numbers beside tensors index as tensors do
        advanced = [k for k, i in enumerate(index) if isinstance(i, (Tensor, int))]
    if advanced and advanced[-1] - advanced[0] + 1 != len(advanced):
        return NotImplemented
    if not any(f is not None for f in found):
        if any(isinstance(i, bool) for i in index):
            return NotImplemented
        if advanced and any(isinstance(i, Tensor) and i.dim() == 0 for i in index):
            return NotImplemented  # as a number where no example lies before it
        return level.batched_tensor(x[(slice(None), *index)])
    if any(isinstance(i, Tensor) and i.dtype in (rushlight.bool, rushlight.uint8) for i in index):
        return NotImplemented
    if advanced[0] != 0:
        return NotImplemented
    rank = max(i.dim() for i in index if isinstance(i, Tensor))
    index = [i if f is None else padded(f, rank) for i, f in zip(index, found)]
    if x is None:
        return level.batched_tensor(tensor[tuple(index)])
    which = rushlight.arange(level.size, device=x.device).reshape(-1, *[1] * rank)
    return level.batched_tensor(x[(which, *index)])


register("__getitem__", _getitem, FUNCTIONS)


def _index(level, func, args, kwargs):
    tensor, indices = args
    found = _behind_examples(level, tensor, indices)
    if found is None:
        return NotImplemented
    return level.batched_tensor(func(level.examples(tensor), found[0]))


def _index_put(level, func, args, kwargs):
    tensor, indices, values, *rest = args
    found = _behind_examples(level, tensor, indices)
    if found is None:
        return NotImplemented
    behind, rank = found
    new = level.examples(values)
    values = values if new is None else padded(new, rank)
    if level.changes_its_first(func, args):
        func(level.examples(tensor), behind, values, *rest, **kwargs)
        return tensor
    return level.batched_tensor(func(level.all_examples(tensor), behind, values, *rest, **kwargs))


def _behind_examples(level, tensor, indices):
    """The indices where a dim of examples comes first, and the dims of what they name in one; None
    where they differ by example or are masks, and where the dims that they give would change place.
    """
    places = [k for k, i in enumerate(indices) if i is not None]
    given = [indices[k] for k in places]
    if any(level.examples(i) is not None or i.dtype.itemsize < 4 for i in given):
        return None
    if not places or places[-1] - places[0] + 1 != len(places):
        return None
    rank = tensor.dim() - len(places) + max(i.dim() for i in given)
    return [None, *indices], rank


register("index", _index)
register("index_put", _index_put)


def _where(level, func, args, kwargs):
    if len(args) + len(kwargs) == 1:
        raise RuntimeError("vmap: where() of a condition alone gives each example other sizes")
    return pointwise(level, func, args, kwargs)


register("where", _where)


def _as_strided(level, func, args, kwargs):
    if func.__name__ == "as_strided_":
        raise RuntimeError("vmap: as_strided_() is not supported; use as_strided()")
    x = level.examples(args[0])
    if x is None:
        return NotImplemented
    given = dict(zip(("size", "stride", "storage_offset"), args[1:]), **kwargs)
    size, stride, offset = given["size"], given["stride"], given.get("storage_offset")
    offset = x.storage_offset() if offset is None else offset
    first, last = _reach(x.shape[1:], x.stride()[1:], x.storage_offset())
    if 0 not in size and len(size) == len(stride):
        wanted = _reach(size, stride, offset)
        if 0 in x.shape[1:] or wanted[0] < first or wanted[1] > last:
            raise RuntimeError(
                f"vmap: as_strided(size={tuple(size)}, stride={tuple(stride)}, storage_offset="
                f"{offset}) of an example of shape {tuple(x.shape[1:])} can access memory outside "
                "of `tensor`, which may be that of another example"
            )
    result = func(x, (x.shape[0], *size), (x.stride(0), *stride), offset)
    return level.batched_tensor(result)


def _reach(sizes, strides, offset):
    """The places of the first and the last element in the storage."""
    return offset, offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))


register("as_strided", _as_strided)


def _index_select(level, func, args, kwargs):
    tensor, dim, index = args
    if not tensor.dim():
        return NotImplemented
    if level.examples(index) is not None:
        return at_own_index(level, func, args, kwargs)
    x = level.examples(tensor)
    return level.batched_tensor(x.index_select(shifted(dim, tensor.dim()), index))


register("index_select", _index_select)


def _embedding(level, func, args, kwargs):
    index, weight, *rest = args
    if index.is_floating_point():  # torch.embedding takes the weight first
        return NotImplemented
    if level.examples(weight) is not None:
        return NotImplemented if rest or kwargs else level.run_inside(_rows_of, args, kwargs)
    return level.batched_tensor(func(level.examples(index), weight, *rest, **kwargs))


def _embedding_gradient(level, func, args, kwargs):
    """The gradients beside each other: of an embedding with as many times longer rows."""
    grad, index, size, *rest = args
    g = level.examples(grad)
    if g is None or level.examples(index) is not None or len(size) != 2:
        return NotImplemented
    rows, width = size
    beside = func(g.movedim(0, -2).flatten(-2), index, (rows, level.size * width), *rest, **kwargs)
    return level.batched_tensor(beside.unflatten(1, (level.size, width)).movedim(1, 0))


register("embedding_gradient", _embedding_gradient)


def _rows_of(index, weight):
    return weight[index]


register("embedding", _embedding)
