"""OpenMP, which the threads of the kernels come from."""

from __future__ import annotations


def is_available() -> bool:
    """Is it there?"""
    return True
