"""Reductions of sparse tensors with masks: over the elements that the mask keeps, or, of a sum
without a mask, over those that there are.
"""

from __future__ import annotations

import functools
import inspect
import math

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor

_COO, _CSR = rushlight.sparse_coo, rushlight.sparse_csr
_OF_LAYOUT = {_COO: ("sum", "prod", "amax", "amin"), _CSR: ("sum", "prod", "amax", "amin", "mean")}


def of_any_layout(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of `masked` that takes sparse masks, and reduces sparse inputs where it can."""
    @functools.wraps(function)
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        for name in ("mask", "input_mask", "other_mask"):
            mask = kwargs.get(name)
            if mask is not None and input.layout is rushlight.strided is not mask.layout:
                kwargs[name] = mask.to_dense()
        if input.layout is rushlight.strided:
            return function(input, *args, **kwargs)
        bound = inspect.signature(function).bind(input, *args, **kwargs)
        bound.apply_defaults()
        return _reduced(function.__name__, **bound.arguments)

    return call


def _reduced(name, input, dim=None, *, keepdim=False, dtype=None, mask=None, **others):
    layout = input.layout
    if name not in _OF_LAYOUT.get(layout, ()):
        raise ValueError(f"masked {name} expects strided tensor (got {layout} tensor)")
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {_short(layout)} tensor input")
    if layout is _CSR and not keepdim:
        raise RuntimeError(f"masked {name} of a tensor in layout {layout} needs keepdim=True")
    from rushlight import masked

    convert = masked._inexact if name == "mean" else masked._whole
    if name in ("amax", "amin"):
        values_in = input if dtype is None else input.to(dtype)
    else:
        values_in = convert(input, dtype)
    elements = values_in.to_sparse_coo().coalesce()
    if elements.dense_dim():
        raise NotImplementedError(f"masked {name}: of a sparse tensor with dense dims")
    if mask is not None:
        elements = elements.sparse_mask(_pattern(mask, input.shape)).coalesce()
    result = _by_group(name, elements, masked._dims(input, dim), bool(keepdim))
    return result.to_sparse_csr() if layout is _CSR else result


def _short(layout):
    return str(layout).removeprefix("torch.")


def _pattern(mask, shape):
    """A sparse tensor that has the elements that the mask keeps, and no others."""
    if mask.dtype != rushlight.bool:
        raise TypeError(f"masked: expected mask to be a bool tensor, got {mask.dtype}")
    if mask.layout is rushlight.strided or mask.shape != shape:
        mask = mask.to_dense() if mask.layout is not rushlight.strided else mask
        return mask.broadcast_to(shape).to_sparse()
    mask = mask.to_sparse_coo().coalesce()
    indices, kept = mask.indices(), mask.values()
    return rushlight.sparse_coo_tensor(indices[:, kept], kept[kept], shape).coalesce()


def _by_group(name, elements: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """The elements of each place of the other dims, reduced to one."""
    indices, values, shape = elements.indices(), elements.values(), elements.shape
    others = [d for d in range(len(shape)) if d not in dims]
    if not others:
        total = _of_all(name, values)
        return (total.reshape([1] * len(shape)) if keepdim else total).to_sparse()
    places, group = indices[others].unique(dim=1, return_inverse=True)
    reduce = "sum" if name == "mean" else name
    start = values.new_zeros(places.size(1))
    result = start.scatter_reduce(0, group, values, reduce, include_self=False)
    if name == "mean":
        result = result / group.bincount(minlength=places.size(1))
    if keepdim:
        every = places.new_zeros(len(shape), places.size(1))
        every[others] = places
        places, size = every, [1 if d in dims else n for d, n in enumerate(shape)]
    else:
        size = [shape[d] for d in others]
    return rushlight.sparse_coo_tensor(places, result, size, is_coalesced=True)


def _of_all(name, values):
    """All of them reduced to one; of none, what the operation gives for nothing."""
    if len(values):
        return getattr(values, name)()
    of_nothing = {"sum": 0, "prod": 1, "mean": math.nan}
    if name not in of_nothing:
        return values.new_full((), rushlight.masked._extreme(values.dtype, name == "amin"))
    return values.new_full((), of_nothing[name])
