"""Intel MKL, which is not used: OpenBLAS is."""

from __future__ import annotations


def is_available() -> bool:
    """Is it there?"""
    return False


VERBOSE_OFF = 0
VERBOSE_ON = 1


class verbose:
    """A context without MKL's messages: to ask for them raises NotImplementedError."""

    def __init__(self, enable: int) -> None:
        if enable != VERBOSE_OFF:
            raise NotImplementedError(f"backends.mkl.verbose: enable={enable}: MKL is not used")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass
