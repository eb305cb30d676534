"""The current accelerator: there is none in a build without CUDA."""

import contextlib

from rushlight import _absent

globals().update(
    _absent.answers(
        {
            "is_available": False,
            "device_count": 0,
            "current_accelerator": None,
            "empty_host_cache": None,
        }
    )
)
globals().update(
    _absent.refusals(
        "accelerator",
        (
            "current_device_idx", "current_device_index", "current_stream", "empty_cache",
            "get_memory_info",
            "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
            "memory_stats",
            "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx",
            "set_device_index", "set_stream",
            "synchronize", "get_device_capability", "Graph",
        ),
        RuntimeError,
    )
)  # fmt: skip


@contextlib.contextmanager
def device_index(device: int | None):
    """A context in which an accelerator is the current one; None changes nothing."""
    if device is not None:
        raise RuntimeError(
            "accelerator.device_index: rushlight was built without accelerator devices"
        )
    yield
