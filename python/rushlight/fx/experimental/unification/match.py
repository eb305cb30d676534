"""Functions that are chosen by patterns of their arguments."""

from __future__ import annotations

from rushlight.fx.experimental.unification.core import reify, unify
from rushlight.fx.experimental.unification.multipledispatch.utils import topological
from rushlight.fx.experimental.unification.utils import freeze
from rushlight.fx.experimental.unification.variable import isvar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["Dispatcher", "VarDispatcher", "edge", "match", "ordering", "supercedes"]


class Dispatcher:
    """A function of several: called is the one whose pattern the arguments fit best."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.funcs: dict[Any, Callable[..., Any]] = {}
        self.ordering: list[Any] = []

    def add(self, signature: tuple[Any, ...], func: Callable[..., Any]) -> None:
        """Add a function with its pattern."""
        self.funcs[freeze(signature)] = func
        self.ordering = ordering(self.funcs)

    def resolve(self, args: tuple[Any, ...]) -> tuple[Callable[..., Any], dict[Any, Any]]:
        """The function for arguments, and {variable of its pattern: value}.

        Raises: NotImplementedError if there is none.
        """
        for signature in self.ordering:
            found = unify(freeze(args), signature) if len(signature) == len(args) else False
            if found is not False:
                return self.funcs[signature], found
        raise NotImplementedError(f"{self.name}: {args} fits none of {self.ordering}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.resolve(args)[0](*args, **kwargs)

    def register(self, *signature: Any) -> Callable[[Callable[..., Any]], Dispatcher]:
        """A decorator that adds a function."""

        def add(func: Callable[..., Any]) -> Dispatcher:
            self.add(signature, func)
            return self

        return add


class VarDispatcher(Dispatcher):
    """A dispatcher whose functions take the values of the variables, by their tokens."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, found = self.resolve(args)
        return function(**{variable.token: value for variable, value in found.items()}, **kwargs)


global_namespace: dict[str, Dispatcher] = {}


def match(
    *signature: Any,
    namespace: dict[str, Dispatcher] = global_namespace,
    Dispatcher: type[Dispatcher] = Dispatcher,
) -> Callable[[Callable[..., Any]], Dispatcher]:
    """A decorator: the function is called for arguments that fit a pattern."""

    def add(func: Callable[..., Any]) -> Any:
        dispatcher = namespace.setdefault(func.__name__, Dispatcher(func.__name__))
        dispatcher.add(signature, func)
        return dispatcher

    return add


def supercedes(a: Any, b: Any) -> bool:
    """Does all that fits the first pattern fit the second too?"""
    if isvar(b) and not isvar(a):
        return True
    found = unify(a, b)
    if found is False:
        return False
    bound = {k: v for k, v in found.items() if not isvar(k) or not isvar(v)}
    return reify(a, bound) == a


def edge(a: Any, b: Any, tie_breaker: Callable[[Any], Any] = hash) -> bool:
    """Is the first pattern tried before the second? The tie breaker decides between equals."""
    return supercedes(a, b) and (not supercedes(b, a) or tie_breaker(a) > tie_breaker(b))


def ordering(signatures: Iterable[Any]) -> list[Any]:
    """The order in which patterns are tried."""
    return topological(list(map(tuple, signatures)), edge)
