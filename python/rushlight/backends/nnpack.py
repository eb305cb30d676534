"""NNPACK, which is not used."""

import contextlib


def is_available():
    """Is it there?"""
    return False


def set_flags(_enabled):
    """Refuse to enable it; returns what was set, as a tuple."""
    if _enabled:
        raise RuntimeError("nnpack.set_flags: NNPACK is not in rushlight")
    return (False,)


@contextlib.contextmanager
def flags(enabled=False):
    """A context in which it is enabled, which is refused, or not."""
    set_flags(enabled)
    yield
