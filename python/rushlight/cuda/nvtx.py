"""Marks for NVIDIA's profiler, which needs a GPU."""

import contextlib

from rushlight import _absent

_NAMES = ("mark", "range_end", "range_pop", "range_push", "range_start")
globals().update(_absent.refusals("CUDA", _NAMES, RuntimeError))


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """A context that marks what runs in it."""
    range_push(msg.format(*args, **kwargs))  # noqa: F821
    yield
