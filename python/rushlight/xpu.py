"""Intel's GPUs: there are none here."""

from rushlight import _absent

globals().update(
    _absent.answers(
        {
            "is_available": False, "is_initialized": False, "is_bf16_supported": False,
            "device_count": 0,
            "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0,
            "max_memory_reserved": 0,
            "memory_stats": dict, "empty_cache": None, "manual_seed": None,
            "manual_seed_all": None, "seed": None,
            "seed_all": None, "reset_peak_memory_stats": None, "get_rng_state_all": list,
        }
    )
)  # fmt: skip
globals().update(
    _absent.refusals(
        "XPU",
        (
            "Event", "Stream", "current_device", "current_stream", "device",
            "get_device_capability", "get_device_name",
            "get_device_properties", "get_rng_state", "init", "mem_get_info", "set_device",
            "set_rng_state", "stream",
            "synchronize",
        ),
    )
)  # fmt: skip
