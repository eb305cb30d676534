"""Mixed precision on the CPU, by its older names."""

from __future__ import annotations

from rushlight._ignored import older_name as _older_name
from rushlight.amp import GradScaler as _GradScaler, autocast as _autocast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.types import _dtype


class autocast(_autocast):
    """amp.autocast for the CPU."""

    def __init__(
        self, enabled: bool = True, dtype: _dtype | None = None, cache_enabled: bool = True
    ) -> None:
        _older_name("cpu.amp.autocast", 'amp.autocast("cpu")')
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """amp.GradScaler for the CPU."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _older_name("cpu.amp.GradScaler", 'amp.GradScaler("cpu")')
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
