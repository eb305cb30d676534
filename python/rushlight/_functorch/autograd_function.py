"""What the rule of a custom `Function` is told by `vmap`."""

from rushlight.func._vmap import VmapInfo

__all__ = ["VmapInfo"]
