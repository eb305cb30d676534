"""Containers as keys, and dicts that are followed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

__all__ = ["freeze", "hashable", "raises", "reverse_dict", "transitive_get", "xfail"]


def hashable(x: object) -> bool:
    """Can it be a key?"""
    try:
        hash(x)
    except TypeError:
        return False
    return True


def transitive_get(key: Any, d: Mapping[Any, Any]) -> Any:
    """What a key leads to, from value to value; the key itself where it leads nowhere.

    Example:
        >>> from rushlight.fx.experimental.unification.utils import transitive_get
        >>> transitive_get(1, {1: 2, 2: 3, 3: 4})
        4
    """
    while hashable(key) and key in d:
        key = d[key]
    return key


def raises(err: type[BaseException], lamda: Callable[[], Any]) -> bool:
    """Does a function raise the error?"""
    try:
        lamda()
    except err:
        return True
    return False


def xfail(func: Callable[[], Any]) -> None:
    """Call a function that must fail.

    Raises: AssertionError if it does not.
    """
    if not raises(Exception, func):
        raise AssertionError(f"xfail: {func} does not fail")


def reverse_dict(d: Mapping[Any, Iterable[Any]]) -> dict[Any, tuple[Any, ...]]:
    """{value: the keys that have it among theirs}."""
    found: dict[Any, tuple[Any, ...]] = {}
    for key, values in d.items():
        for value in values:
            found[value] = (*found.get(value, ()), key)
    return found


def freeze(d: Any) -> Any:
    """Containers as such that can be keys: tuples and frozen sets."""
    if isinstance(d, dict):
        return frozenset(map(freeze, d.items()))
    if isinstance(d, (set, frozenset)):
        return frozenset(map(freeze, d))
    return tuple(map(freeze, d)) if isinstance(d, (tuple, list)) else d
