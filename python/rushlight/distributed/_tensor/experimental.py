"""What tensors that are spread over processes offer on trial."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@contextlib.contextmanager
def implicit_replication() -> Iterator[Any]:
    """A context in which plain tensors may stand beside spread ones: all are plain."""
    yield
