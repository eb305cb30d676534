"""The accelerator of this machine, whichever it is: a GPU of CUDA, or none.

Programs ask here to run on what there is: `device = accelerator.current_accelerator() or "cpu"`.
Functions that need a device raise RuntimeError without one.
"""

from __future__ import annotations

import rushlight
from rushlight.accelerator._device import cuda_for, number_of
from rushlight.accelerator.graphs import Graph
from rushlight.accelerator.memory import (
    empty_cache,
    empty_host_cache,
    get_memory_info,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import Device

__all__ = [
    "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
    "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Is there an accelerator?"""
    return rushlight.cuda.is_available()


def device_count() -> int:
    """How many there are."""
    return rushlight.cuda.device_count() if is_available() else 0


def current_accelerator(check_available: bool = False) -> rushlight.device | None:
    """The kind of accelerator, as a device without a number; None without one.

    Args:
        check_available: changes nothing: a kind that is not there is never returned.
    """
    return rushlight.device("cuda") if is_available() else None


def current_device_index() -> int:
    """The number of the current one."""
    return cuda_for("current_device_index").current_device()


def set_device_index(device: Device, /) -> None:
    """Make another the current one."""
    cuda_for("set_device_index").set_device(number_of(device, "set_device_index"))


current_device_idx = current_device_index
set_device_idx = set_device_index


class device_index:
    """A context in which an accelerator is the current one.

    Args:
        device: its number; None changes nothing.
    """

    prev_idx: Any

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            cuda = cuda_for("device_index")
            self.prev_idx = cuda.current_device()
            cuda.set_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        if self.idx is not None:
            rushlight.cuda.set_device(self.prev_idx)


def get_device_capability(device: Device = None, /) -> dict[str, Any]:
    """What a device can do: {"supported_dtypes": those of its tensors}."""
    cuda_for("get_device_capability").get_device_properties(
        number_of(device, "get_device_capability")
    )
    names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
    names += ["complex64", "complex128"]
    return {"supported_dtypes": {getattr(rushlight, name) for name in names}}


def current_stream(device: Device = None, /) -> Any:
    """The stream that a device's work of this thread goes to."""
    return cuda_for("current_stream").current_stream(number_of(device, "current_stream"))


def set_stream(stream: Any) -> None:
    """Make a stream the current one, and its device the current one."""
    cuda_for("set_stream").set_stream(stream)


def synchronize(device: Device = None, /) -> None:
    """Wait until a device has done all it was given."""
    cuda_for("synchronize").synchronize(number_of(device, "synchronize"))
