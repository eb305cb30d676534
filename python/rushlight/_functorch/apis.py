"""`vmap`, `grad` and `grad_and_value`."""

from rushlight.func import grad, grad_and_value, vmap

chunk_vmap = vmap

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]
