"""Warnings about what a program asks for and does not get, each given once."""

from __future__ import annotations

import os
import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACKAGE = os.path.dirname(__file__) + os.sep
_warned = set()


def warn_once(text: str) -> None:
    """Warn, the first time, of the line outside of rushlight that led here."""
    if text in _warned:
        return
    _warned.add(text)
    warn_program(text)


def warn_program(text: str, category: type[Warning] = UserWarning, further: int = 0) -> None:
    """Warn of the line outside of rushlight that led here, or of one so many callers further.

    The core warns by it too.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_on_the_way(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level + further)


def _is_on_the_way(frame):
    """Of this library, or of the standard library's wrappers, which call it for a program."""
    name = frame.f_globals.get("__name__")
    return frame.f_code.co_filename.startswith(_PACKAGE) or name in ("contextlib", "functools")


def older_name(name: str, newer: str) -> None:
    """Warn that a program uses a name for which torch has a newer one."""
    warn_program(f"{name} is an older name: write {newer}", FutureWarning)


def warn_of(function: str, reason: str, **arguments: Any) -> None:
    """Warn of each argument that is given and has no effect: one that is not None or False."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            warn_once(f"{function}: {name} has no effect: {reason}")
