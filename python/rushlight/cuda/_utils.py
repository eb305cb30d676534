"""The import path `cuda._utils` of existing programs."""

from rushlight._utils import _get_device_index

__all__ = ["_get_device_index"]
