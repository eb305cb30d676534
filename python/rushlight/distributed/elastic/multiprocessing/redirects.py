"""Sends what a process writes to a file, also what C code writes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
_DESCRIPTORS = {"stdout": 1, "stderr": 2}


def get_libc() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None)


libc: ctypes.CDLL = get_libc()


@contextlib.contextmanager
def redirect(std: str, to_file: str) -> Iterator[None]:
    """A context in which a stream goes to a file.

    Args:
        std: "stdout" or "stderr".
        to_file: the file's path; it is written anew.
    """
    if std not in _DESCRIPTORS:
        raise ValueError(f"redirect: expected 'stdout' or 'stderr', got {std!r}")
    stream = getattr(sys, std)
    try:
        descriptor = stream.fileno()  # which a program may have replaced
    except (AttributeError, OSError):
        descriptor = _DESCRIPTORS[std]

    def flush():
        stream.flush()
        libc.fflush(None)

    flush()
    before = os.dup(descriptor)
    try:
        with open(to_file, "wb") as file:
            os.dup2(file.fileno(), descriptor)
        try:
            yield
        finally:
            flush()
            os.dup2(before, descriptor)
    finally:
        os.close(before)


def redirect_stdout(to_file: str) -> contextlib.AbstractContextManager[None]:
    """A context in which standard output goes to a file."""
    return redirect("stdout", to_file)


def redirect_stderr(to_file: str) -> contextlib.AbstractContextManager[None]:
    """A context in which standard error goes to a file."""
    return redirect("stderr", to_file)


__all__ = [
    "IS_MACOS", "IS_WINDOWS", "get_libc", "libc", "redirect", "redirect_stderr",
    "redirect_stdout",
]  # fmt: skip
