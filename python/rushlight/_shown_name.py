"""The name that the result of a function of several operations shows as its `grad_fn`."""

from __future__ import annotations

import functools

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _F = TypeVar("_F", bound=Callable[..., object])


def shown_as(name: str) -> Callable[[_F], _F]:
    """Return a decorator: torch has one node, of this name, for what the function computes."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def named(*args, **kwargs):
            since = _C._last_node()
            results = function(*args, **kwargs)
            _C._name_nodes(results, since, name)
            return results

        return named

    return decorate
