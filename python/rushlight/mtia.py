"""Meta's accelerators: there are none here."""

from __future__ import annotations

from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...  # what the lists below make


globals().update(
    _absent.answers(
        {"is_available": False, "is_initialized": False, "device_count": 0, "manual_seed_all": None}
    )
)
globals().update(
    _absent.refusals("MTIA", ("current_device", "current_stream", "set_device", "synchronize"))
)
