"""NNPACK, which is not used."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def is_available() -> bool:
    """Is it there?"""
    return False


def set_flags(_enabled: Any) -> Any:
    """Refuse to enable it; returns what was set, as a tuple."""
    if _enabled:
        raise RuntimeError("nnpack.set_flags: NNPACK is not in rushlight")
    return (False,)


@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[Any]:
    """A context in which it is enabled, which is refused, or not."""
    set_flags(enabled)
    yield
