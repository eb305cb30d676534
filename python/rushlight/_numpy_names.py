"""NumPy's names of arguments, which torch's functions written in C++ take beside their own.

`src/bind/args.cpp` does this for the operations of the table; here is the same for functions that
are written in Python here, and in C++ in torch.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NUMPY_NAMES = {
    "dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1", "self"), "other": ("x2",),
    "dim0": ("axis0",), "dim1": ("axis1",),
}  # fmt: skip


def numpy_names_of(function: Callable[..., Any]) -> dict[str, str]:
    """The function's parameters by the names that NumPy has for them."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {given: name for name in own for given in NUMPY_NAMES.get(name, ()) if given not in own}


def rename(function: Callable[..., Any], names: dict[str, str], kwargs: dict) -> dict:
    """`kwargs` with the function's own names in place of NumPy's, which `names` has."""
    if names.keys().isdisjoint(kwargs):
        return kwargs
    renamed = {}
    for given, value in kwargs.items():
        name = names.get(given, given)
        if name in renamed or (name != given and name in kwargs):
            raise TypeError(f"{function.__name__}() got multiple values for argument '{name}'")
        renamed[name] = value
    return renamed


def takes_numpy_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes NumPy's names too."""
    names = numpy_names_of(function)

    def called(*args, **kwargs):
        return function(*args, **(rename(function, names, kwargs) if kwargs else kwargs))

    return wrapping(called, function)


def wrapping(called: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`called`, named and documented as the function that it calls: `functools.wraps` for the
    start of the library, which does without that module.
    """
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(called, name, getattr(function, name))
    called.__wrapped__ = function
    return called


def take_numpy_names(table: dict[str, Any], names: str) -> None:
    """Let the functions of a module's table of names that are listed take NumPy's names too."""
    for name in names.split():
        if type(table[name]) is type(rename):  # an operation's name may be of another module
            table[name] = takes_numpy_names(table[name])
