"""Turning size arguments into tuples, and names in a state_dict."""

from __future__ import annotations

from typing import Any

from rushlight._integers import is_integer as _is_integer
from rushlight.nn._ntuple import _ntuple

__all__ = ["consume_prefix_in_state_dict_if_present"]


_single = _ntuple(1)
_pair = _ntuple(2)
_triple = _ntuple(3)
_quadruple = _ntuple(4)


def _reverse_repeat_tuple(t, n):
    """(a, b) with n=2 as (b, b, a, a): per-dim paddings in the order that `F.pad` takes."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """The sizes, None replaced by the last of `defaults` in their place."""
    if _is_integer(out_size):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(
            f"output_size: expected fewer than {len(defaults)} sizes but got {len(out_size)}"
        )
    return [
        default if size is None else size
        for size, default in zip(out_size, defaults[-len(out_size) :])
    ]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Strip `prefix` from the keys of `state_dict` and of its metadata, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        # The module itself is there under the prefix without its dot.
        for key in list(metadata):
            if key and key.startswith(prefix.rstrip(".")):
                metadata[key[len(prefix) :]] = metadata.pop(key)
