"""Ranges for Intel's tools, which this build has no library of: they are refused."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Is the library there? No."""
    return False


def _refuse(name):
    raise RuntimeError(
        f"profiler.itt.{name}: this build cannot emit ITT ranges; profiler.record_function marks"
        " parts of a program for its own profiles"
    )


def range_push(msg: str) -> NoReturn:
    """Raises RuntimeError: `msg` cannot be told."""
    _refuse(f"range_push({msg!r})")


def range_pop() -> NoReturn:
    """Raises RuntimeError."""
    _refuse("range_pop")


def mark(msg: str) -> NoReturn:
    """Raises RuntimeError: `msg` cannot be told."""
    _refuse(f"mark({msg!r})")


@contextlib.contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Raises RuntimeError when it is entered: `msg`, formatted with the others, cannot be told."""
    range_push(msg.format(*args, **kwargs))
    yield
