"""OpenMP, which is not used: kernels run on a thread pool of their own."""

from __future__ import annotations


def is_available() -> bool:
    """Is it there?"""
    return False
