"""Where in an object lies what cannot be pickled, for errors to say."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_DEEPEST = 50


def note_unpicklable(
    error: Exception, where: str, parts: dict[str, Any], pickle: Callable[[Any], Any], advice: str
) -> None:
    """Note on an error of pickling the path to its cause, as `save: obj['layers'][0].fn is f`.

    Args:
        parts: what was pickled, by the names that paths begin with.
        pickle: fails where something cannot be pickled.
        advice: what to do about it.
    """
    if not hasattr(error, "add_note"):  # before Python 3.11
        return
    for path, value in parts.items():
        if not _fails(pickle, value):
            continue
        for _ in range(_DEEPEST):
            inside = next(((p, v) for p, v in _members(value) if _fails(pickle, v)), None)
            if inside is None:
                break
            path, value = path + inside[0], inside[1]
        name = getattr(value, "__qualname__", type(value).__qualname__)
        error.add_note(f"{where}: {path} is {name}, which cannot be pickled: {advice}")
        return


def _fails(pickle, value):
    try:
        pickle(value)
    except Exception:  # whatever it is: it is looked for, not reported
        return True
    return False


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """(path from the value, what lies there)."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, type):
        for name, item in attributes.items():
            if name in ("_modules", "_parameters", "_buffers") and isinstance(item, dict):
                yield from ((f".{key}", member) for key, member in item.items())
            else:
                yield f".{name}", item
