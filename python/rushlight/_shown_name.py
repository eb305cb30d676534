"""One node in the graph for a function of several operations."""

from __future__ import annotations

import functools
import inspect

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _F = TypeVar("_F", bound=Callable[..., object])


def shown_as(name: str, *inputs: str) -> Callable[[_F], _F]:
    """Return a decorator: torch has one node, of this name, for what the function computes.

    Args:
        name: of the node.
        inputs: the parameters that the node has edges for, in this order; of a function of
            `*tensors` all of these. Other tensors that the results depend on come after them.
    """

    def decorate(function: _F) -> _F:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
        first = len(names) < len(parameters)  # all positional arguments are inputs

        @functools.wraps(function)
        def joined(*args, **kwargs):
            since = _C._last_node()
            results = function(*args, **kwargs)
            if _C._last_node() != since:
                given = kwargs if first else dict(zip(names, args), **kwargs)
                wanted = args if first else [given.get(p) for p in inputs]
                others = [value for p, value in given.items() if p not in inputs]
                _C._join_nodes(results, since, name, wanted, others)
            return results

        return joined

    return decorate
