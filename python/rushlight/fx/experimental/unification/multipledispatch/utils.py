"""Products of types, orders, and names."""

from __future__ import annotations

import itertools

from rushlight.fx.experimental.unification.unification_tools import groupby
from rushlight.fx.experimental.unification.utils import raises, reverse_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["expand_tuples", "groupby", "raises", "reverse_dict", "topological", "typename"]


def expand_tuples(L: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All ways to take one of each tuple in a sequence.

    Example:
        >>> from rushlight.fx.experimental.unification.multipledispatch.utils import expand_tuples
        >>> expand_tuples([1, (2, 3)])
        [(1, 2), (1, 3)]
    """
    choices = [v if isinstance(v, tuple) else (v,) for v in reversed(L)]
    return [tuple(reversed(chosen)) for chosen in itertools.product(*choices)]


def topological(values: Sequence[Any], before: Callable[[Any, Any], bool]) -> list[Any]:
    """The values in an order in which a comes before b if before(a, b).

    Raises: ValueError if there is none.
    """
    missing = {b: {a for a in values if before(a, b)} for b in values}
    found: list[Any] = []
    while missing:
        ready = next((v for v, needs in missing.items() if not needs), None)
        if ready is None:
            raise ValueError(f"topological: {list(missing)} come before each other")
        found.append(ready)
        del missing[ready]
        for needs in missing.values():
            needs.discard(ready)
    return found


def typename(type: Any) -> str:
    """The name of a type, or of several.

    Example:
        >>> from rushlight.fx.experimental.unification.multipledispatch.utils import typename
        >>> typename((int, float))
        '(int, float)'
    """
    if not isinstance(type, tuple):
        return type.__name__
    names = ", ".join(map(typename, type))
    return names if len(type) == 1 else f"({names})"
