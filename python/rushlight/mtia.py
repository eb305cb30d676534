"""Meta's accelerators: there are none here."""

from rushlight import _absent

globals().update(
    _absent.answers(
        {"is_available": False, "is_initialized": False, "device_count": 0, "manual_seed_all": None}
    )
)
globals().update(
    _absent.refusals("MTIA", ("current_device", "current_stream", "set_device", "synchronize"))
)
