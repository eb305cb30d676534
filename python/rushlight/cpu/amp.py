"""Mixed precision on the CPU, by its older names."""

from rushlight.amp import GradScaler as _GradScaler
from rushlight.amp import autocast as _autocast


class autocast(_autocast):
    """amp.autocast for the CPU."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(_GradScaler):
    """amp.GradScaler for the CPU."""

    def __init__(
        self,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
