"""Tensors shared with other libraries without a copy."""

from __future__ import annotations

import enum

from rushlight import from_dlpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor as a DLPack capsule, for `from_dlpack` of another library."""
    return tensor.__dlpack__()


class DLDeviceType(enum.IntEnum):
    """The kinds of devices that DLPack numbers."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
