"""The memory of GPUs: the names of rushlight.cuda that are about it."""

from rushlight import cuda as _cuda

_NAMES = (
    "empty_cache", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
    "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_stats", "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
)  # fmt: skip
globals().update({name: getattr(_cuda, name) for name in _NAMES})
__all__ = list(_NAMES)
