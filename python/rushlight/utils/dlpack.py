"""Tensors shared with other libraries without a copy."""

from rushlight import from_dlpack


def to_dlpack(tensor):
    """The tensor as a DLPack capsule, for `from_dlpack` of another library."""
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
