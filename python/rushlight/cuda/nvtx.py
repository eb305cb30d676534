"""Marks for NVIDIA's profiler, which needs a GPU."""

from __future__ import annotations

import contextlib

from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_NAMES = ("mark", "range_end", "range_pop", "range_push", "range_start")
globals().update(_absent.refusals("CUDA", _NAMES, RuntimeError))


@contextlib.contextmanager
def range(msg: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """A context that marks what runs in it."""
    range_push(msg.format(*args, **kwargs))  # noqa: F821
    yield
