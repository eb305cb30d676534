"""Calls of several modules at once."""

from rushlight.nn.parallel.replicate import parallel_apply

__all__ = ["parallel_apply"]
