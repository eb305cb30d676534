"""Intel MKL, which is not used: OpenBLAS and oneDNN are."""

from __future__ import annotations


def is_available() -> bool:
    """Is it there?"""
    return False
