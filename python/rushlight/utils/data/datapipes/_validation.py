"""Checks of the steps of data pipelines that programs ask for."""

from __future__ import annotations

import contextlib
import functools
import inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

_state = {"validates": True, "deterministic": False}


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Have a constructor check that data pipes which are given have the types of its annotations.

    Raises:
        TypeError: one has not.
    """
    from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

    signature = inspect.signature(f)
    wanted = {
        name: kind
        for name, kind in getattr(f, "__annotations__", {}).items()
        if isinstance(kind, type) and issubclass(kind, (IterDataPipe, MapDataPipe))
    }

    @functools.wraps(f)
    def checked(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        for name, kind in wanted.items():
            if name in given and not isinstance(given[name], kind):
                raise TypeError(
                    f"{f.__qualname__}: expected {name} to be a {kind.__name__}, got "
                    f"{type(given[name]).__name__}"
                )
        return f(*args, **kwargs)

    return checked


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Have `__iter__` check each element against the step's `reinforced_type`, a class.

    Raises:
        RuntimeError: an element is of another class.
    """

    @functools.wraps(f)
    def checked(self):
        for element in f(self):
            kind = getattr(self, "reinforced_type", None)
            if _state["validates"] and isinstance(kind, type) and not isinstance(element, kind):
                raise RuntimeError(
                    f"{type(self).__name__}: expected elements of {kind.__name__}, got "
                    f"{type(element).__name__}"
                )
            yield element

    return checked


class runtime_validation_disabled(contextlib.ContextDecorator):
    """A context in which `runtime_validation` checks nothing."""

    def __enter__(self) -> Self:
        self._before, _state["validates"] = _state["validates"], False
        return self

    def __exit__(self, *exception: object) -> None:
        _state["validates"] = self._before


class guaranteed_datapipes_determinism(contextlib.ContextDecorator):
    """A context in which steps marked by `non_deterministic` cannot be made."""

    def __enter__(self) -> Self:
        self._before, _state["deterministic"] = _state["deterministic"], True
        return self

    def __exit__(self, *exception: object) -> None:
        _state["deterministic"] = self._before


def non_deterministic(arg: Any) -> Any:
    """Mark a class of steps whose elements come in an order that changes from run to run.

    Args:
        arg: the class, or a function of the constructor's arguments that says whether it is so.
    """
    if inspect.isclass(arg):
        return _guarded(arg, lambda *args, **kwargs: True)
    return lambda cls: _guarded(cls, arg)


def _guarded(cls, says):
    before = cls.__init__

    @functools.wraps(before)
    def init(self, *args, **kwargs):
        if _state["deterministic"] and says(*args, **kwargs):
            raise TypeError(
                f"{cls.__name__} is non-deterministic, and guaranteed_datapipes_determinism "
                "forbids it"
            )
        before(self, *args, **kwargs)

    cls.__init__ = init
    return cls
