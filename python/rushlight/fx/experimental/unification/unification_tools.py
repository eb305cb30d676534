"""Functions of dicts that return new ones."""

from __future__ import annotations

import collections
import functools
import operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

__all__ = [
    "assoc",
    "assoc_in",
    "dissoc",
    "first",
    "get_in",
    "groupby",
    "itemfilter",
    "itemmap",
    "keyfilter",
    "keymap",
    "merge",
    "merge_with",
    "update_in",
    "valfilter",
    "valmap",
]


def _listed(dicts):
    return dicts[0] if len(dicts) == 1 and not isinstance(dicts[0], collections.abc.Mapping) else (
        dicts
    )  # fmt: skip


def _filled(factory, pairs):
    made = factory()
    for key, value in pairs:
        made[key] = value
    return made


def merge(*dicts: Any, factory: Callable[[], Any] = dict) -> Any:
    """A dict of all entries; later dicts come first. `factory` makes it."""
    return _filled(factory, (pair for d in _listed(dicts) for pair in d.items()))


def merge_with(
    func: Callable[[list[Any]], Any], *dicts: Any, factory: Callable[[], Any] = dict
) -> Any:
    """{key: func(list of its values in the dicts)}."""
    values: dict[Any, list[Any]] = {}
    for d in _listed(dicts):
        for key, value in d.items():
            values.setdefault(key, []).append(value)
    return _filled(factory, ((key, func(listed)) for key, listed in values.items()))


def valmap(
    func: Callable[[Any], Any], d: Mapping[Any, Any], factory: Callable[[], Any] = dict
) -> Any:
    """{key: func(value)}."""
    return _filled(factory, ((k, func(v)) for k, v in d.items()))


def keymap(
    func: Callable[[Any], Any], d: Mapping[Any, Any], factory: Callable[[], Any] = dict
) -> Any:
    """{func(key): value}."""
    return _filled(factory, ((func(k), v) for k, v in d.items()))


def itemmap(
    func: Callable[[Any], Any], d: Mapping[Any, Any], factory: Callable[[], Any] = dict
) -> Any:
    """A dict of func((key, value)), which are such pairs."""
    return _filled(factory, map(func, d.items()))


def valfilter(
    predicate: Callable[[Any], bool], d: Mapping[Any, Any], factory: Callable[[], Any] = dict
) -> Any:
    """The entries for whose values the predicate is true."""
    return _filled(factory, ((k, v) for k, v in d.items() if predicate(v)))


def keyfilter(
    predicate: Callable[[Any], bool], d: Mapping[Any, Any], factory: Callable[[], Any] = dict
) -> Any:
    """The entries for whose keys the predicate is true."""
    return _filled(factory, ((k, v) for k, v in d.items() if predicate(k)))


def itemfilter(
    predicate: Callable[[Any], bool], d: Mapping[Any, Any], factory: Callable[[], Any] = dict
) -> Any:
    """The entries, as pairs, for which the predicate is true."""
    return _filled(factory, (pair for pair in d.items() if predicate(pair)))


def assoc(d: Mapping[Any, Any], key: Any, value: Any, factory: Callable[[], Any] = dict) -> Any:
    """A dict with one more entry."""
    return _filled(factory, [*d.items(), (key, value)])


def dissoc(d: Mapping[Any, Any], *keys: Any, factory: Callable[[], Any] = dict) -> Any:
    """A dict without the keys."""
    return _filled(factory, ((k, v) for k, v in d.items() if k not in keys))


def assoc_in(
    d: Mapping[Any, Any], keys: Sequence[Any], value: Any, factory: Callable[[], Any] = dict
) -> Any:
    """A dict with a value at a path of keys."""
    return update_in(d, keys, lambda _: value, value, factory)


def update_in(
    d: Mapping[Any, Any],
    keys: Sequence[Any],
    func: Callable[[Any], Any],
    default: Any = None,
    factory: Callable[[], Any] = dict,
) -> Any:
    """A dict with func(value) at a path of keys, or func(default) where there is none."""
    key, *rest = keys
    if rest:
        value = update_in(d.get(key, factory()), rest, func, default, factory)
    else:
        value = func(d.get(key, default))
    return assoc(d, key, value, factory)


def get_in(keys: Sequence[Any], coll: Any, default: Any = None, no_default: bool = False) -> Any:
    """What a collection has at a path of keys and indices; `default` where there is nothing.

    Raises: KeyError, IndexError or TypeError there, with no_default=True.
    """
    try:
        return functools.reduce(operator.getitem, keys, coll)
    except (KeyError, IndexError, TypeError):
        if no_default:
            raise
        return default


def groupby(key: Any, seq: Iterable[Any]) -> dict[Any, list[Any]]:
    """{key(v): the v that have it}; a key that is no function is an index, or several."""
    if not callable(key):
        key = operator.itemgetter(*key) if isinstance(key, list) else operator.itemgetter(key)
    found: dict[Any, list[Any]] = {}
    for value in seq:
        found.setdefault(key(value), []).append(value)
    return found


def first(seq: Iterable[Any]) -> Any:
    """The first of a sequence."""
    return next(iter(seq))
