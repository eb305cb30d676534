"""`vmap`, `grad` and `grad_and_value`."""

from rushlight.func import grad, grad_and_value, vmap
from rushlight.func._vmap import chunk_vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]
