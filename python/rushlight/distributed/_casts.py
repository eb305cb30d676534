"""Inputs and outputs in the dtype of mixed precision."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def cast_floating(thing: Any, dtype: rushlight.dtype) -> Any:
    """The same structure, its floating-point tensors in another dtype."""
    if isinstance(thing, rushlight.Tensor):
        return thing.to(dtype) if thing.is_floating_point() else thing
    if isinstance(thing, dict):
        return {key: cast_floating(value, dtype) for key, value in thing.items()}
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(cast_floating(value, dtype) for value in thing))
    if isinstance(thing, (list, tuple)):
        return type(thing)(cast_floating(value, dtype) for value in thing)
    return thing
