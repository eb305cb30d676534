"""`distributed.tensor._utils` by its older path."""

from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset

__all__ = ["compute_local_shape_and_global_offset"]
