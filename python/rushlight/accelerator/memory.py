"""The memory of the accelerator."""

from __future__ import annotations

import rushlight
from rushlight.accelerator._device import cuda_for, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import Device

__all__ = [
    "empty_cache", "empty_host_cache", "get_memory_info", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats",
]  # fmt: skip


def empty_cache() -> None:
    """Give memory that no tensor holds back to the driver; without an accelerator there is none."""
    if rushlight.cuda.is_available():
        rushlight.cuda.empty_cache()


def empty_host_cache() -> None:
    """Give page-locked memory that no tensor holds back to the system, with the accelerator's."""
    empty_cache()


def memory_stats(device_index: Device = None, /) -> Any:
    """Counts and bytes by name, such as "allocated_bytes.all.current"."""
    return cuda_for("memory_stats").memory_stats(number_of(device_index, "memory_stats"))


def memory_allocated(device_index: Device = None, /) -> int:
    """The bytes that tensors hold."""
    return cuda_for("memory_allocated").memory_allocated(
        number_of(device_index, "memory_allocated")
    )


def max_memory_allocated(device_index: Device = None, /) -> int:
    """The most bytes that tensors held since the last reset_peak_memory_stats()."""
    return cuda_for("max_memory_allocated").max_memory_allocated(
        number_of(device_index, "max_memory_allocated")
    )


def memory_reserved(device_index: Device = None, /) -> int:
    """The bytes that the allocator has from the driver."""
    return cuda_for("memory_reserved").memory_reserved(number_of(device_index, "memory_reserved"))


def max_memory_reserved(device_index: Device = None, /) -> int:
    """The most bytes that the allocator had since the last reset_peak_memory_stats()."""
    return cuda_for("max_memory_reserved").max_memory_reserved(
        number_of(device_index, "max_memory_reserved")
    )


def reset_accumulated_memory_stats(device_index: Device = None, /) -> None:
    """Count allocations from zero again."""
    cuda_for("reset_accumulated_memory_stats").reset_accumulated_memory_stats(
        number_of(device_index, "reset_accumulated_memory_stats")
    )


def reset_peak_memory_stats(device_index: Device = None, /) -> None:
    """Let the most be what is now."""
    cuda_for("reset_peak_memory_stats").reset_peak_memory_stats(
        number_of(device_index, "reset_peak_memory_stats")
    )


def get_memory_info(device_index: Device = None, /) -> tuple[int, int]:
    """The bytes of a device that are free, and all it has."""
    return cuda_for("get_memory_info").mem_get_info(number_of(device_index, "get_memory_info"))
