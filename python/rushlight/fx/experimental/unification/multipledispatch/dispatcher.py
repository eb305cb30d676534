"""Functions of several functions, chosen by the types of the arguments."""

from __future__ import annotations

import inspect

from rushlight._ignored import warn_program as _warn_program
from rushlight.fx.experimental.unification.multipledispatch.conflict import (
    AmbiguityWarning,
    ambiguities,
    ordering,
    super_signature,
)
from rushlight.fx.experimental.unification.multipledispatch.utils import expand_tuples
from rushlight.fx.experimental.unification.multipledispatch.variadic import Variadic, isvariadic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

__all__ = [
    "Dispatcher",
    "MDNotImplementedError",
    "MethodDispatcher",
    "ambiguity_warn",
    "halt_ordering",
    "restart_ordering",
    "source",
    "str_signature",
    "variadic_signature_matches",
    "variadic_signature_matches_iter",
    "warning_text",
]


class MDNotImplementedError(NotImplementedError):
    """Raised by a function to let the next one be tried."""


def ambiguity_warn(dispatcher: Dispatcher, ambiguities: set[Any]) -> None:
    """Warn of signatures of which none is more special."""
    _warn_program(warning_text(dispatcher.name, ambiguities), AmbiguityWarning)


def halt_ordering() -> None:
    """Warn that there is nothing to halt: signatures are put in order when they are needed."""
    _warn_program("`halt_ordering` is deprecated: leave it out", FutureWarning)


def restart_ordering(on_ambiguity: Callable[..., None] = ambiguity_warn) -> None:
    """Warn that there is nothing to restart: call `reorder` of each dispatcher."""
    del on_ambiguity
    _warn_program("`restart_ordering` is deprecated: call `reorder`", FutureWarning)


def variadic_signature_matches_iter(
    types: Iterable[type], full_signature: tuple[Any, ...]
) -> Iterator[bool]:
    """For each type, whether it fits a signature with any number of arguments at the end; and
    whether all before these were given.
    """
    types, fixed = list(types), len(full_signature) - 1
    for i, kind in enumerate(types):
        yield issubclass(kind, full_signature[min(i, fixed)])
    yield len(types) >= fixed


def variadic_signature_matches(types: Iterable[type], full_signature: tuple[Any, ...]) -> bool:
    """Do types fit a signature with any number of arguments at the end?"""
    if not full_signature:
        raise AssertionError("variadic_signature_matches: the signature is empty")
    return all(variadic_signature_matches_iter(types, full_signature))


def str_signature(sig: Iterable[type]) -> str:
    """A signature as text.

    Example:
        >>> from rushlight.fx.experimental.unification.multipledispatch import dispatcher
        >>> dispatcher.str_signature((int, float))
        'int, float'
    """
    return ", ".join(kind.__name__ for kind in sig)


def warning_text(name: str, amb: set[Any]) -> str:
    """What is warned of: the pairs of signatures, and what would make them clear."""
    lines = [f"{name}: arguments may fit several signatures of which none is more special:"]
    lines += [f"    [{str_signature(a)}] and [{str_signature(b)}]" for a, b in amb]
    lines.append("These signatures would decide:")
    lines += [f"    @dispatch({str_signature(super_signature(pair))})" for pair in amb]
    return "\n".join(lines)


def source(func: Callable[..., Any]) -> str:
    """The file and the source of a function."""
    return f"File: {inspect.getsourcefile(func)}\n\n{inspect.getsource(func)}"


class Dispatcher:
    """A function of several: called is the one whose signature fits the arguments' types best.

    Example:
        >>> from rushlight.fx.experimental.unification.multipledispatch import Dispatcher
        >>> f = Dispatcher("f")
        >>> f.add((int,), lambda x: x + 1)
        >>> f.add((float,), lambda x: x - 1)
        >>> f(3), f(3.0)
        (4, 2.0)
    """

    __name__: str

    def __init__(self, name: str, doc: str | None = None) -> None:
        self.name = self.__name__ = name
        self.funcs: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self.doc = doc
        self._ordering = None
        self._cache = {}

    def register(self, *types: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that adds a function for types."""

        def add(func: Callable[..., Any]) -> Callable[..., Any]:
            self.add(types, func)
            return func

        return add

    @classmethod
    def get_func_params(cls, func: Callable[..., Any]) -> Iterable[inspect.Parameter]:
        """The parameters that count."""
        return inspect.signature(func).parameters.values()

    @classmethod
    def get_func_annotations(cls, func: Callable[..., Any]) -> tuple[Any, ...] | None:
        """The annotations of positional parameters; None if one has none."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found = [p.annotation for p in cls.get_func_params(func) if p.kind in kinds]
        return None if inspect.Parameter.empty in found else tuple(found)

    def add(self, signature: tuple[Any, ...], func: Callable[..., Any]) -> None:
        """Add a function for types; a tuple is any of several, a list at the end any number.

        Raises: TypeError if the signature holds what is no type.
        """
        signature = signature or self.get_func_annotations(func) or ()
        if any(isinstance(kind, tuple) for kind in signature):
            for types in expand_tuples(signature):
                self.add(types, func)
            return
        self.funcs[tuple(self._checked(signature))] = func
        self._cache.clear()
        self._ordering = None

    def _checked(self, signature):
        for place, kind in enumerate(signature, 1):
            if isinstance(kind, list):
                if place != len(signature) or len(kind) != 1:
                    raise TypeError(
                        f"{self.name}: a list of one type must come last, got {signature}"
                    )
                yield Variadic[kind[0]]
            elif isinstance(kind, type):
                yield kind
            else:
                raise TypeError(f"{self.name}: {kind!r} in {signature} is no type")

    @property
    def ordering(self) -> list[tuple[Any, ...]]:
        """The signatures in the order in which they are tried."""
        return self.reorder() if self._ordering is None else self._ordering

    def reorder(self, on_ambiguity: Callable[..., None] = ambiguity_warn) -> list[tuple[Any, ...]]:
        """Put the signatures in order; `on_ambiguity` is told which pairs are not clear."""
        self._ordering = ordering(self.funcs)
        found = ambiguities(self.funcs)
        if found:
            on_ambiguity(self, found)
        return self._ordering

    def _matching(self, types):
        function = self._cache.get(types) or self.dispatch(*types)
        if function is None:
            raise NotImplementedError(
                f"Could not find signature for {self.name}: <{str_signature(types)}>"
            )
        self._cache[types] = function
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        types = tuple(map(type, args))
        tried = self._matching(types)
        try:
            return tried(*args, **kwargs)
        except MDNotImplementedError:
            for other in self.dispatch_iter(*types):
                try:
                    if other is not tried:
                        return other(*args, **kwargs)
                except MDNotImplementedError:
                    continue
            raise NotImplementedError(
                f"{self.name}: no function for <{str_signature(types)}> completed"
            ) from None

    def __repr__(self) -> str:
        return f"<dispatched {self.name}>"

    def dispatch(self, *types: type) -> Callable[..., Any] | None:
        """The function for types, or None."""
        return self.funcs.get(types) or next(self.dispatch_iter(*types), None)

    def dispatch_iter(self, *types: type) -> Iterator[Callable[..., Any]]:
        """The functions for types, the best first."""
        for signature in self.ordering:
            many = bool(signature) and isvariadic(signature[-1])
            if many:
                fits = variadic_signature_matches(types, signature)
            else:
                fits = len(signature) == len(types) and all(map(issubclass, types, signature))
            if fits:
                yield self.funcs[signature]

    def resolve(self, types: tuple[type, ...]) -> Callable[..., Any] | None:
        """The function for types, with a warning: `dispatch` is the name."""
        _warn_program("`resolve()` is deprecated: call dispatch(*types)", FutureWarning)
        return self.dispatch(*types)

    def __reduce__(self) -> tuple[Any, ...]:
        return _dispatcher_of, (type(self), self.name, self.funcs)

    def help(self, *args: Any) -> None:
        """Print the docstring of the function for arguments."""
        print(self.dispatch(*map(type, args)).__doc__)

    def source(self, *args: Any) -> None:
        """Print the source of the function for arguments.

        Raises: TypeError if there is none.
        """
        function = self.dispatch(*map(type, args))
        if function is None:
            raise TypeError(f"{self.name}: there is no function for {args}")
        print(source(function))


def _dispatcher_of(kind, name, functions):
    made = kind(name)
    made.funcs.update(functions)
    return made


class MethodDispatcher(Dispatcher):
    """A method of several, chosen by the types of the arguments behind self."""

    @classmethod
    def get_func_params(cls, func: Callable[..., Any]) -> Iterable[inspect.Parameter]:
        """The parameters behind self."""
        return list(super().get_func_params(func))[1:]

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self

        def bound(*args: Any, **kwargs: Any) -> Any:
            return self._matching(tuple(map(type, args)))(instance, *args, **kwargs)

        return bound
