"""Contexts and questions of modes, which code beside `__torch_dispatch__` uses."""

from __future__ import annotations

import contextlib

from rushlight import _C
from rushlight.utils._python_dispatch import _disable_current_modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


@contextlib.contextmanager
def no_dispatch() -> Iterator[None]:
    """A context in which neither modes nor classes of tensors see operations."""
    with _disable_current_modes(), _C._SubclassesOff():
        yield


def all_same_mode(modes: Sequence[Any]) -> bool:
    """Are they all the first of them?"""
    return all(mode == modes[0] for mode in modes)
