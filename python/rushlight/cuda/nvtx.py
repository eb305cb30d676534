"""Marks for NVIDIA's profilers, and ranges for rushlight's own.

NVIDIA's profilers see them where its library is there (`pip install nvidia-nvtx`); in profiles of
`rushlight.profiler` ranges that are pushed are there in any case. All of them need a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import threading

from rushlight.cuda._libraries import folders as _folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_FILES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1", "libnvtx3interop.so")
_open = threading.local()  # of each thread: the spans that were pushed
_numbers = itertools.count(1)  # of ranges without the library


@functools.cache
def _library():
    """NVIDIA's library, or None."""
    inside = [os.path.join(folder, name) for folder in _folders()[0] for name in _FILES]
    for place in (*inside, *_FILES):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(place)
            library.nvtxRangeStartA.restype = ctypes.c_uint64
            library.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
            return library
    return None


def _with_gpu(name):
    from rushlight import cuda

    if not cuda.is_available():
        raise RuntimeError(f"cuda.nvtx.{name}: there is no GPU")
    return _library()


def range_push(msg: str) -> int:
    """Begin a range of this thread, which range_pop() ends. Returns how many are around it."""
    from rushlight.autograd.profiler import record_function

    library = _with_gpu("range_push")
    if library is not None:
        library.nvtxRangePushA(msg.encode())
    spans = _open.__dict__.setdefault("spans", [])
    span = record_function(msg)
    span.__enter__()
    spans.append(span)
    return len(spans) - 1


def range_pop() -> int:
    """End the innermost range of this thread. Returns how many are around it, or -1 if there was
    none.
    """
    library = _with_gpu("range_pop")
    spans = _open.__dict__.setdefault("spans", [])
    if not spans:
        return -1
    if library is not None:
        library.nvtxRangePop()
    spans.pop().__exit__(None, None, None)
    return len(spans)


def range_start(msg: str) -> int:
    """Begin a range that any thread may end. Returns its number."""
    library = _with_gpu("range_start")
    return next(_numbers) if library is None else library.nvtxRangeStartA(msg.encode())


def range_end(range_id: int) -> None:
    """End the range that range_start() began."""
    library = _with_gpu("range_end")
    if library is not None:
        library.nvtxRangeEnd(range_id)


def mark(msg: str) -> None:
    """Mark a moment."""
    library = _with_gpu("mark")
    if library is not None:
        library.nvtxMarkA(msg.encode())


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """A context that is a range, or a decorator of a function whose calls are.

    Args:
        msg: its name, which is formatted with the other arguments.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
