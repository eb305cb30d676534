"""What a build without a kind of device answers for it: nothing is there, and what needs it says
so.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def answers(values: Any) -> dict[str, Callable[..., Any]]:
    """Functions of the calling module, by name, that take anything and return what `values` says
    for them.
    """
    home = sys._getframe(1).f_globals["__name__"]

    def make(name, value):
        def function(*args, **kwargs):
            return value() if callable(value) else value

        function.__name__ = function.__qualname__ = name
        function.__module__ = home
        function.__doc__ = f"Without a device: {value() if callable(value) else value!r}."
        return function

    return {name: make(name, value) for name, value in values.items()}


def refusals(kind: str, names: Sequence[str], error: type[Any] = AssertionError) -> dict[Any, Any]:
    """Functions of the calling module that raise `error`, and for capitalised names classes that
    raise RuntimeError: the build has no such device.
    """
    home = sys._getframe(1).f_globals["__name__"]

    def make(name):
        is_class = name[0].isupper()
        raised = RuntimeError if is_class else error

        def function(*args, **kwargs):
            raise raised(f"{kind.lower()}.{name}: rushlight was built without {kind} devices")

        function.__name__ = function.__qualname__ = name
        function.__module__ = home
        function.__doc__ = f"Needs a device: raises {raised.__name__}."
        if is_class:
            members = {"__init__": function, "__doc__": function.__doc__, "__module__": home}
            return type(name, (), members)
        return function

    return {name: make(name) for name in names}


class _NoMember(NotImplementedError, AttributeError):
    """A member of a refused class is asked for: `hasattr` says that it is not there."""


class _Refused(type):
    """The class of refused classes: whoever asks for their members is told the reason too."""

    _reason = ""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise _NoMember(f"{cls._reason} (its {name})")


def refused(reasons: dict[str, str]) -> dict[str, Any]:
    """Functions of the calling module, and classes for capitalised names, that raise
    NotImplementedError: `reasons` says why, by name.
    """
    home = sys._getframe(1).f_globals["__name__"]
    where = home.partition(".")[2]

    def make(name, reason):
        def function(*args, **kwargs):
            raise NotImplementedError(f"{where}.{name}: {reason}".lstrip("."))

        function.__name__ = function.__qualname__ = name
        function.__module__ = home
        function.__doc__ = f"Raises NotImplementedError: {reason}."
        if name[0].isupper():
            members = {"__init__": function, "__doc__": function.__doc__, "__module__": home}
            made = _Refused(name, (), members)
            made._reason = f"{where}.{name}: {reason}".lstrip(".")
            return made
        return function

    return {name: make(name, reason) for name, reason in reasons.items()}
