"""Operations made of others that have rules, where these say the same of one example; and those
that take batches before dims of fixed places."""

from __future__ import annotations

import functools
import operator

import rushlight
from rushlight import Tensor
from rushlight.func._batching._elements import pointwise
from rushlight.func._batching._rules import (
    home_of,
    inside,
    of_first,
    padded,
    register,
    shifted,
    wrap,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


@inside("kron")
def _kron(input: Tensor, other: Tensor) -> Tensor:
    rank = max(input.dim(), other.dim())
    left = [1] * (rank - input.dim()) + list(input.shape)
    right = [1] * (rank - other.dim()) + list(other.shape)
    a = input.reshape([n for size in left for n in (size, 1)])
    b = other.reshape([n for size in right for n in (1, size)])
    return (a * b).reshape([m * n for m, n in zip(left, right)])


@inside("diag")
def _diag(input: Tensor, diagonal: int = 0) -> Any:
    if input.dim() not in (1, 2):
        return NotImplemented
    if input.dim() == 1:
        return rushlight.diag_embed(input, diagonal)
    return input.diagonal(diagonal).clone()


@inside("prelu")
def _prelu(input: Tensor, weight: Tensor) -> Any:
    if weight.dim() > 1 or not weight.numel():
        return NotImplemented
    if weight.numel() > 1:
        if input.dim() < 2 or input.shape[1] != weight.numel():
            return NotImplemented
        weight = weight.reshape(-1, *[1] * (input.dim() - 2))
    elif weight.dim():
        weight = weight.reshape(())
    return rushlight.where(input > 0, input, weight * input)


@inside("bilinear")
def _bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    # (..., 1, 1, a) @ (out, a, b) @ (..., 1, b, 1)
    left = input1.unsqueeze(-2).unsqueeze(-2) @ weight
    product = (left @ input2.unsqueeze(-1).unsqueeze(-3)).squeeze(-1).squeeze(-1)
    return product if bias is None else product + bias


@inside("multi_dot")
def _multi_dot(tensors: Sequence[Tensor]) -> Any:
    if len(tensors) < 2 or any(t.dim() != 2 for t in tensors):
        return NotImplemented
    return functools.reduce(operator.matmul, tensors)


@inside("take")
def _take(input: Tensor, index: Tensor) -> Tensor:
    return input.reshape(-1)[index]


@inside("dist")
def _dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    return rushlight.linalg.vector_norm(input - other, p)


@of_first("roll")
def _roll(func: Callable[..., Any], x: Tensor, rank: int, shifts: Any, dims: Any = ()) -> Tensor:
    if isinstance(dims, int) or len(dims):
        return func(x, shifts, shifted(dims, rank))
    return func(x.reshape(x.shape[0], -1), shifts, 1).reshape(x.shape)


@of_first("flipped")
def _flipped(func: Callable[..., Any], x: Tensor, rank: int) -> Tensor:
    dim = 1 if func.__name__ == "fliplr" else 0
    return NotImplemented if rank <= dim else x.flip(dim + 1)


@of_first("one_hot")
def _one_hot(func: Callable[..., Any], x: Tensor, rank: int, num_classes: int = -1) -> Tensor:
    return NotImplemented if num_classes < 0 else func(x, num_classes)


# They broadcast what comes before their own dims, of which all arguments have as many.
register("batches", pointwise)


def _cross(level, func, args, kwargs):
    given = {**dict(zip(("input", "other", "dim"), args)), **kwargs}
    pair = [given.pop("input"), given.pop("other")]
    dim = given.pop("dim", -1 if home_of(func) == "rushlight.linalg" else None)
    if home_of(func) == "rushlight.linalg" and pair[0].dim() != pair[1].dim():
        return NotImplemented  # refused, example by example
    sizes = rushlight.broadcast_shapes(*(t.shape for t in pair))
    rank = len(sizes)
    if given or (dim is None and 3 not in sizes) or not rank:
        return NotImplemented
    place = (sizes.index(3) if dim is None else shifted(dim, rank) - 1) - rank
    pair = [padded(level.all_examples(t), rank) for t in pair]
    return wrap(level, rushlight.linalg.cross(*pair, dim=place))


register("cross", _cross)


def _solve(level, func, args, kwargs):
    """Of matrices, or of vectors as columns."""
    if len(args) != 2 or not kwargs.get("left", True):
        return NotImplemented
    a, b = args
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    x, y = level.all_examples(a), level.all_examples(b)
    rank = max(a.dim(), b.dim() + is_vector)
    solution, *rest = func(
        padded(x, rank), padded(y.unsqueeze(-1) if is_vector else y, rank), **kwargs
    )
    columns = solution.squeeze(-1) if is_vector else solution
    return wrap(level, (columns, *rest))


register("solve", _solve)


def _lstsq(level, func, args, kwargs):
    a, b, *rest = args
    if kwargs or a.dim() != b.dim():
        return NotImplemented
    found = func(level.all_examples(a), level.all_examples(b), *rest)
    # What a driver does not find is empty.
    return tuple(wrap(level, t) if len(t) == level.size else t for t in found)


register("lstsq", _lstsq)


def _searchsorted(level, func, args, kwargs):
    if len(args) != 2 or kwargs.get("sorter") is not None or not isinstance(args[1], Tensor):
        return NotImplemented
    rows, values = args
    if level.examples(rows) is None:
        if rows.dim() != 1:
            return NotImplemented
        return wrap(level, func(rows, level.examples(values), **kwargs))
    x, y = level.examples(rows), level.all_examples(values)
    if rows.dim() == 1:
        found = func(x, y.reshape(level.size, -1), **kwargs).reshape(y.shape)
    elif values.dim() == rows.dim():
        found = func(x, y, **kwargs)
    else:
        return NotImplemented
    return wrap(level, found)


register("searchsorted", _searchsorted)


def _fill_at(name, tensor, dim, index, value):
    shape = [1] * tensor.dim()
    shape[dim] = size = tensor.shape[dim]
    nowhere = rushlight.zeros(size, dtype=rushlight.bool, device=tensor.device)
    filled = nowhere.index_fill(0, index, True).reshape(shape)
    return getattr(tensor, name.replace("index", "masked"))(filled, value)


def _at_same_index_of_number(func, tensor, dim, index, *values, **kwargs):
    """Without dims, a tensor counts as one dim of size 1."""
    if "fill" not in func.__name__:
        values = (values[0].reshape(1), *values[1:])
    changed = func(tensor.unsqueeze(0), dim, index, *values, **kwargs)
    return tensor if func.__name__.endswith("_") else changed.squeeze(0)


def _at_same_index(level, func, args, kwargs):
    """index_add, index_copy and index_fill at the same places of each example."""
    if len(args) < 3:
        return NotImplemented
    tensor, dim, index, *values = args
    if not tensor.dim():
        return level.run_inside(_at_same_index_of_number, (func, *args), kwargs)
    if values and isinstance(values[0], Tensor) and not values[0].dim():  # of index_fill
        return level.run_inside(_fill_at, (func.__name__, *args), kwargs)
    if level.examples(index) is not None:
        return at_own_index(level, func, args, kwargs)
    in_place = level.changes_its_first(func, args)
    if values and isinstance(values[0], Tensor):
        if values[0].dim() != tensor.dim():
            return NotImplemented
        values[0] = level.all_examples(values[0])
    x = level.examples(tensor) if in_place else level.all_examples(tensor)
    result = func(x, shifted(dim, tensor.dim()), index, *values, **kwargs)
    return tensor if in_place else wrap(level, result)


register("at_same_index", _at_same_index)


def at_own_index(level: int, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Those, and index_select, at places of each example's own: in one tensor of all of them."""
    tensor, dim, index, *values = args
    place, size = shifted(dim, tensor.dim()), tensor.shape[dim]
    i = level.examples(index).reshape(level.size, -1)
    if not i.numel() or bool((i < 0).any()) or bool((i >= size).any()):
        return NotImplemented  # the example that is wrong raises

    def in_line(t):
        return level.all_examples(t).movedim(place, 1).flatten(0, 1)

    if values and isinstance(values[0], Tensor):
        if values[0].dim() != tensor.dim():
            return NotImplemented
        values[0] = in_line(values[0])
    in_place = level.changes_its_first(func, args)
    behind = i + rushlight.arange(0, level.size * size, size, device=i.device).unsqueeze(1)
    found = func(in_line(tensor), 0, behind.flatten(), *values, **kwargs)
    found = found.unflatten(0, (level.size, -1)).movedim(1, place)
    if not in_place:
        return level.batched_tensor(found)
    level.examples(tensor).copy_(found)
    return tensor
