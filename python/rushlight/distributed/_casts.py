"""Inputs and outputs in the dtype of mixed precision, and on a module's device."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def cast_floating(thing: Any, dtype: rushlight.dtype) -> Any:
    """The same structure, its floating-point tensors in another dtype."""
    return _mapped(lambda x: x.to(dtype) if x.is_floating_point() else x, thing)


def moved(thing: Any, device: rushlight.device) -> Any:
    """The same structure, its tensors on a device."""
    return _mapped(lambda x: x.to(device), thing)


def _mapped(change: Callable[..., Any], thing: Any) -> Any:
    if isinstance(thing, rushlight.Tensor):
        return change(thing)
    if isinstance(thing, dict):
        return {key: _mapped(change, value) for key, value in thing.items()}
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(_mapped(change, value) for value in thing))
    if isinstance(thing, (list, tuple)):
        return type(thing)(_mapped(change, value) for value in thing)
    return thing
