"""Apple's GPUs: there are none here."""

from __future__ import annotations

from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...  # what the lists below make


globals().update(
    _absent.answers({"is_available": False, "device_count": 0, "manual_seed": None, "seed": None})
)
globals().update(
    _absent.refusals(
        "MPS",
        (
            "Event", "compile_shader", "current_allocated_memory", "driver_allocated_memory",
            "empty_cache", "get_rng_state",
            "recommended_max_memory", "set_per_process_memory_fraction", "set_rng_state",
            "synchronize", "load_metallib", "profiler",
        ),
        RuntimeError,
    )
)  # fmt: skip
