"""Intel's GPUs: there are none here."""

from __future__ import annotations

from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...  # what the lists below make


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
            "get_arch_list": list, "get_gencode_flags": "",
            "is_current_stream_capturing": False, "is_tf32_supported": False,
            "memory_snapshot": list, "memory_stats_as_nested_dict": dict,
            "reset_accumulated_memory_stats": None,
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
            "set_rng_state", "stream", "synchronize", "MemPool", "StreamContext", "XPUGraph",
            "XPUPluggableAllocator", "can_device_access_peer", "change_current_allocator",
            "clock_rate", "device_memory_used", "device_of", "get_per_process_memory_fraction",
            "get_stream_from_external", "graph", "graph_pool_handle", "initial_seed",
            "make_graphed_callables", "memory_usage", "power_draw",
            "set_per_process_memory_fraction", "set_rng_state_all", "set_stream", "streams",
            "temperature", "use_mem_pool", "utilization",
        ),
    )
)  # fmt: skip

default_generators: tuple[()] = ()  # of the devices that there are
