"""Controls of the graph compiler, for programs that carry them: there is none, and operations run
as they are called.
"""

from __future__ import annotations

import contextlib

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def compile(*args: Any, **kwargs: Any) -> Any:
    """See `rushlight.compile`."""
    return rushlight.compile(*args, **kwargs)


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: Any = None
) -> Callable[..., Any]:
    """Mark a function that must not be compiled: none is."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Callable[..., Any]) -> Any:
    """Return the function, or functions, as they are."""
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Any:
    """Return the function as it is."""
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any], **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a function that stands for another in compiled code: there is none."""
    return lambda function: function


def is_compiling() -> bool:
    """Is this being compiled? Never."""
    return False


def is_dynamo_compiling() -> bool:
    """Is this being compiled? Never."""
    return False


def is_exporting() -> bool:
    """Is this being exported? Never."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Mark the begin of an iteration."""


def reset() -> None:
    """Drop what was compiled: nothing."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of the compilers that there are: none."""
    return []


@contextlib.contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[Any]:
    """A context, or a call, that changes nothing."""
    yield


__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
    "substitute_in_graph",
]  # fmt: skip
