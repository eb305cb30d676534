"""Calls of several modules at once."""

from rushlight._set_module import set_module as _set_module
from rushlight.nn.parallel.replicate import parallel_apply

__all__ = ["parallel_apply"]

_set_module(__name__, parallel_apply)
