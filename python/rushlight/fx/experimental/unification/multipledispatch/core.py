"""The decorator by which functions are chosen by types."""

from __future__ import annotations

import inspect

from rushlight.fx.experimental.unification.multipledispatch.dispatcher import (
    Dispatcher,
    MethodDispatcher,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["dispatch", "ismethod"]

global_namespace: dict[str, Dispatcher] = {}


def dispatch(
    *types: Any, namespace: dict[str, Dispatcher] = global_namespace
) -> Callable[[Callable[..., Any]], Dispatcher]:
    """A decorator: the function is called for arguments of the types.

    Args:
        types: one for each positional argument.
        namespace: where functions of one name find each other.

    Example:
        >>> from rushlight.fx.experimental.unification.multipledispatch import dispatch
        >>> @dispatch(int, namespace={})
        ... def f(x):
        ...     return x + 1
        >>> f(3)
        4
    """
    members = inspect.currentframe().f_back.f_locals  # of the class, around a method

    def add(func: Callable[..., Any]) -> Dispatcher:
        name = func.__name__
        if ismethod(func):
            dispatcher = members.get(name)
            if not isinstance(dispatcher, MethodDispatcher):
                dispatcher = MethodDispatcher(name)
        else:
            dispatcher = namespace.setdefault(name, Dispatcher(name))
        dispatcher.add(types, func)
        return dispatcher

    return add


def ismethod(func: Callable[..., Any]) -> bool:
    """Is a function a method? Its class is not there yet, but it takes self."""
    return "self" in inspect.signature(func).parameters
