"""`distributed.device_mesh` by its oldest path."""

from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
