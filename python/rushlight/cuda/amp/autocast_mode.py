"""The older name of amp.autocast("cuda")."""

import rushlight
from rushlight.amp.autocast_mode import autocast as _autocast
from rushlight.amp.autocast_mode import custom_bwd, custom_fwd


class autocast(_autocast):
    """amp.autocast("cuda"), which is disabled where there is no GPU."""

    def __init__(self, enabled=True, dtype=rushlight.float16, cache_enabled=True):
        super().__init__("cuda", dtype, enabled, cache_enabled)


__all__ = ["autocast", "custom_bwd", "custom_fwd"]
