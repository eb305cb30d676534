"""From samples to a batch."""

from __future__ import annotations

import collections.abc
import copy
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.utils.data.transfer import room_for

# The type strings of NumPy's arrays of texts and objects.
np_str_obj_array_pattern: Any = re.compile(r"[SaUO]")

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def rebuild_mapping(original: dict[Any, Any], items: dict[Any, Any]) -> Any:
    """Return `items` in a mapping like `original`, or in a dict if that kind cannot be copied."""
    try:
        if isinstance(original, collections.abc.MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)
    except TypeError:
        return items


def rebuild_sequence(original: Any, items: Any) -> Any:
    """Return `items` in a sequence like `original`, or in a list if that kind cannot be copied."""
    try:
        if isinstance(original, collections.abc.MutableSequence):
            clone = copy.copy(original)
            for position, item in enumerate(items):
                clone[position] = item
            return clone
        return type(original)(items)
    except TypeError:
        return items


def _numpy():
    """Return NumPy if the program has loaded it: without that no sample can be an array."""
    return sys.modules.get("numpy")


def default_convert(data: Any) -> Any:
    """Turn the NumPy arrays inside `data` into tensors and leave everything else as it is.

    This is what a `DataLoader` without batching does.
    """
    numpy = _numpy()
    if isinstance(data, (rushlight.Tensor, str, bytes)):
        return data
    if numpy is not None and isinstance(data, (numpy.ndarray, numpy.generic)):
        is_text = isinstance(data, numpy.ndarray) and data.dtype.kind in "SU"
        return data if is_text else rushlight.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return rebuild_mapping(data, {key: default_convert(data[key]) for key in data})
    if is_named_tuple(data):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return rebuild_sequence(data, [default_convert(value) for value in data])
    return data


def collate(
    batch: Sequence[Any],
    *,
    collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None,
) -> Any:
    """Collate like `default_collate`, with other or further rules per type.

    Args:
        batch: list of samples.
        collate_fn_map: {type or tuple of types: f(batch, *, collate_fn_map)}; a rule for the exact
            type comes before one that matches by `isinstance`.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for rule_type, rule in tuple(collate_fn_map.items()):  # another thread may add rules
            if isinstance(first, rule_type):
                return rule(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return rebuild_mapping(first, columns)
    if isinstance(first, collections.abc.Sequence):
        return _collate_sequences(batch, collate_fn_map)
    raise TypeError(default_collate_err_msg_format.format(kind))


def _collate_sequences(batch, collate_fn_map):
    first = batch[0]
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [
        collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)
    ]
    if is_named_tuple(first):
        return type(first)(*columns)
    return columns if isinstance(first, tuple) else rebuild_sequence(first, columns)


def collate_tensor_fn(
    batch: Sequence[Any],
    *,
    collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None,
) -> Any:
    """Stack tensors, in a worker process right where the batch will travel."""
    first = batch[0]
    plain = all(
        type(tensor) is rushlight.Tensor
        and tensor.dtype == first.dtype
        and tensor.shape == first.shape
        and not tensor.requires_grad
        for tensor in batch
    )
    if plain and not first.is_meta:
        room = room_for(rushlight.Size([len(batch), *first.shape]), first.dtype)
        if room is not None:
            for row, tensor in zip(room.unbind(), batch):
                row.copy_(tensor)
            return room
    return rushlight.stack(batch, 0)


def collate_float_fn(
    batch: Sequence[Any],
    *,
    collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None,
) -> Tensor:
    """Make a float64 tensor."""
    return rushlight.tensor(batch, dtype=rushlight.float64)


def collate_int_fn(
    batch: Sequence[Any],
    *,
    collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None,
) -> Tensor:
    """Make an int64 tensor (bool for booleans)."""
    return rushlight.tensor(batch)


def collate_str_fn(
    batch: Sequence[str],
    *,
    collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None,
) -> Any:
    """Keep strings and bytes in a list."""
    return batch


def collate_numpy_array_fn(
    batch: Sequence[Any],
    *,
    collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None,
) -> Any:
    """Stack arrays as tensors."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str) is not None:
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([rushlight.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(
    batch: Sequence[Any],
    *,
    collate_fn_map: dict[type[Any] | tuple[type[Any], ...], Callable[..., Any]] | None = None,
) -> Tensor:
    """Make a tensor of the scalars' dtype."""
    return rushlight.as_tensor(_numpy().asarray(batch))


default_collate_fn_map: dict[Any, Any] = {
    rushlight.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def add_numpy_rules(numpy: Any) -> None:
    """Put NumPy's arrays and scalars into `default_collate_fn_map`."""
    if numpy.ndarray not in default_collate_fn_map:
        numbers = (numpy.bool_, numpy.number, numpy.object_)
        default_collate_fn_map[numbers] = collate_numpy_scalar_fn
        default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples into a batch with a new first dimension.

    Tensors and arrays are stacked, numbers become tensors, strings stay in a list, and mappings,
    tuples, named tuples and sequences are collated field by field.

    Example:
        >>> default_collate([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
        {'x': tensor([1, 2]), 'y': ['a', 'b']}
    """
    if (numpy := _numpy()) is not None:
        add_numpy_rules(numpy)
    return collate(batch, collate_fn_map=default_collate_fn_map)
