"""Page-locked copies of batches, from which transfers to a GPU are faster."""

from __future__ import annotations

import collections.abc
from typing import Any

import rushlight
from rushlight.utils.data.collate import is_named_tuple, rebuild_mapping, rebuild_sequence


def pin_memory(data: Any) -> str:
    """Return `data` with its tensors, and objects that have a `pin_memory` method, pinned."""
    if isinstance(data, rushlight.Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return rebuild_mapping(data, {key: pin_memory(value) for key, value in data.items()})
    if is_named_tuple(data):
        return type(data)(*map(pin_memory, data))
    if isinstance(data, tuple):
        return [pin_memory(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return rebuild_sequence(data, [pin_memory(value) for value in data])
    return data
