"""Nested dicts and lists as one dict, and back."""

from __future__ import annotations

from collections.abc import Mapping

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def _is_leaf(value):
    """Lists without tensors and dicts in them are values as a whole, and so are tuples."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return not any(isinstance(v, rushlight.Tensor) or not _is_leaf(v) for v in value)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(path, value) of everything in nested dicts and lists; empty dicts vanish."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif _is_leaf(value):
        yield path, value
    else:
        for i, inner in enumerate(value):
            yield from leaves(inner, (*path, i))


def flatten_state_dict(
    state_dict: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """One dict by names, "a.0.b", and the path of each name.

    Raises:
        ValueError: two paths have the same name.
    """
    flat, paths = {}, {}
    for path, value in leaves(state_dict):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    return flat, paths


def path_in_file(path: tuple[Any, ...], state_dict: Any) -> tuple[str | int, ...]:
    """A path as files have it: keys of dicts as text, indices of lists as numbers."""
    found = []
    for part in path:
        found.append(str(part) if isinstance(state_dict, Mapping) else part)
        state_dict = state_dict[part]
    return tuple(found)


def set_element(root: Any, path: tuple[Any, ...], value: Any) -> None:
    """Put a value at a path, and make the dicts and lists on the way."""
    holder = root
    for part, following in zip(path, path[1:]):
        made = [] if isinstance(following, int) else {}
        if isinstance(holder, list):
            _extend(holder, part)
            if holder[part] is None:
                holder[part] = made
            holder = holder[part]
        else:
            holder = holder.setdefault(part, made)
    if isinstance(holder, list):
        _extend(holder, path[-1])
    holder[path[-1]] = value


def _extend(values, index):
    values.extend([None] * (index + 1 - len(values)))


def unflatten_state_dict(
    state_dict: dict[str, Any], mapping: dict[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """The nested dict again, by the path of each name."""
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
