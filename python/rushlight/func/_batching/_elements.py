"""Element by element, and along dims."""

from __future__ import annotations

import types
from math import prod

import rushlight
from rushlight import Tensor
from rushlight.func._batching._rules import (
    FUNCTIONS,
    RULES,
    composed,
    of_first,
    padded,
    register,
    rules_of,
    shifted,
    wrap,
)
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# ---- element by element


def pointwise(level: int, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
    leaves, structure = tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    rank = max(t.dim() for t in tensors)
    in_place = level.changes_its_first(func, args) or kwargs.get("inplace")
    mixed = len({t.dtype for t in tensors}) > 1
    common = rushlight.result_type(*tensors[:2]) if mixed and len(tensors) == 2 else None
    written = level.examples(args[0]) if in_place else None
    changed = []
    for leaf in leaves:
        found = level.examples(leaf)
        if found is None:
            changed.append(leaf)
            continue
        number = rank and not leaf.dim() and leaf.dtype is not rushlight.bool
        if common is not None and number and found is not written:
            found = found.to(common)  # by its rank it does not decide the dtype
        changed.append(padded(found, rank))
    args_, kwargs_ = tree_unflatten(changed, structure)
    result = func(*args_, **kwargs_)
    return args[0] if in_place else wrap(level, result)


register("elementwise", pointwise)


@composed
def _by_where(input, mask, value):
    return rushlight.where(mask, value, input).to(input.dtype)


def _masked_fill(level, func, args, kwargs):
    value = args[2] if len(args) > 2 else kwargs.get("value")
    of_each = level.examples(value) is not None and not value.dim()
    return (_by_where if of_each else pointwise)(level, func, args, kwargs)


register("masked_fill", _masked_fill)


def _fill(level, func, args, kwargs):
    """With a number, or with one for each example."""
    value = args[1] if len(args) > 1 else kwargs["value"]
    numbers = level.examples(value)
    if numbers is None:
        return pointwise(level, func, args, kwargs)
    if value.dim():
        return NotImplemented  # refused, example by example
    in_place = level.changes_its_first(func, args)
    x = level.examples(args[0]) if in_place else rushlight.empty_like(level.all_examples(args[0]))
    x.copy_(padded(numbers, x.dim() - 1))
    return args[0] if in_place else level.batched_tensor(x)


register("fill", _fill)

# ---- one tensor, whatever its dims


@of_first("leading")
def _as_it_is(func, x, rank, *args, **kwargs):
    if kwargs.get("memory_format") in _OF_IMAGES:  # an order for tensors of other dims
        del kwargs["memory_format"]
    return func(x, *args, **kwargs)


_OF_IMAGES = (rushlight.channels_last, rushlight.channels_last_3d)


register("type", RULES["leading"], FUNCTIONS)


@of_first("new")
def _new(func, x, rank, *args, **kwargs):
    if not args:
        return NotImplemented
    sizes = args[:1] if isinstance(args[0], (tuple, list)) else args
    return func(x, (x.shape[0], *sizes_of(sizes)), *args[len(sizes) :], **kwargs)


@of_first("new_empty_strided", FUNCTIONS)
def _new_empty_strided(func, x, rank, size, stride, **kwargs):
    length = 1 + sum((n - 1) * step for n, step in zip(size, stride)) if 0 not in size else 0
    return func(x, (x.shape[0], *size), (length, *stride), **kwargs)


def sizes_of(args: Any) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


def _keeping_itself(level, func, args, kwargs):
    examples = level.examples(args[0])
    others = tree_leaves((args[1:], kwargs))
    if examples is None or len(others) > 1 or any(isinstance(o, Tensor) for o in others):
        return NotImplemented
    func(examples, *args[1:], **kwargs)
    if func.__name__ == "requires_grad_":
        func(args[0], *args[1:], **kwargs)
    return args[0]


register("keeps_itself", _keeping_itself)
register("requires_grad_", _keeping_itself, FUNCTIONS)


def _shape_in_place(level, func, args, kwargs):
    (rule,) = rules_of(func.__name__.removesuffix("_"))
    held = rule(level, func, args, kwargs)
    if held is NotImplemented:
        raise RuntimeError(f"vmap: {func.__name__}() of these arguments is not supported")
    func(*args, **kwargs)
    args[0].__dict__["_examples"] = held.__dict__["_examples"]
    return args[0]


register("shape_in_place", _shape_in_place)


def _resized(level, func, args, kwargs):
    """An example whose elements stay: those of all have no others between them."""
    level.changes_its_first(func, args)
    x, first = level.examples(args[0]), args[1]
    sizes = tuple(first.shape if isinstance(first, Tensor) else sizes_of(args[1:]))
    if kwargs or prod(sizes) != args[0].numel() or not x.is_contiguous():
        raise RuntimeError(
            f"vmap: {func.__name__}() to {sizes} gives an example of shape {tuple(args[0].shape)} "
            "other elements, which cannot be one of many"
        )
    return level.batched_tensor(x.view(level.size, *sizes))


register("resize resize_as", _resized, FUNCTIONS)
register("resize_ resize_as_", _shape_in_place, FUNCTIONS)


# ---- along a dim


@of_first("dim")
def along_dim(func: Callable[..., Any], x: Tensor, rank: int, *args: Any, **kwargs: Any) -> Any:
    """An op that works along the dims that one of its arguments names."""
    if any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, kwargs))):
        return NotImplemented
    from rushlight._op_rules import DIMS

    place, name, default, many, first = DIMS[func.__name__.removesuffix("_")]
    args = list(args)
    key = next((k for k in (name, "dim", "axis") if k in kwargs), None)
    if key:
        given = kwargs[key]
    elif len(args) >= place:
        if many and all(type(d) is int for d in args[place - 1 :]):  # one by one, as in flip(0, 1)
            args[place - 1 :] = [args[place - 1 :]]
        given = args[place - 1]
    else:
        given, key = default, name
    if given is None or given == default == ():  # all elements of an example as one dim
        if any(args[place:]) or kwargs.get("keepdim") or isinstance(func, types.FunctionType):
            return NotImplemented  # written in Python, it chooses the dim by an example's rank
        if key:
            kwargs[key] = 1
        else:
            args[place - 1] = 1
        result = func(x.reshape(x.shape[0], -1), *args, **kwargs)
        return result[0] if first else result
    if not isinstance(given, (int, tuple, list)) or isinstance(given, bool):
        return NotImplemented
    if isinstance(given, (tuple, list)) and not given:
        return NotImplemented
    if not rank:
        return _of_numbers(func, x, args, kwargs)
    if key:
        kwargs[key] = shifted(given, rank)
    else:
        args[place - 1] = shifted(given, rank)
    return func(x, *args, **kwargs)


def _of_numbers(func, x, args, kwargs):
    """Where an example has no dims, it counts as one dim of size 1."""
    leaves, structure = tree_flatten(func(x.new_zeros(()), *args, **kwargs))  # or it raises
    found = tree_leaves(along_dim(func, x.unsqueeze(1), 1, *args, **kwargs))
    return tree_unflatten(
        [one.reshape((len(x), *leaf.shape)) for one, leaf in zip(found, leaves)], structure
    )


@of_first("extremum")
def _extremum(func, x, rank, *args, **kwargs):
    """max and min, of all elements with the gradient shared out among equals."""
    if args or kwargs:
        return along_dim(func, x, rank, *args, **kwargs)
    if not rank:
        return NotImplemented
    return x.flatten(1).amax(1) if func.__name__ == "max" else x.flatten(1).amin(1)
