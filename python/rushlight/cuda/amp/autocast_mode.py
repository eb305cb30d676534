"""The older name of amp.autocast("cuda")."""

from __future__ import annotations

import rushlight
from rushlight._ignored import older_name as _older_name
from rushlight.amp.autocast_mode import (
    autocast as _autocast,
    custom_bwd as _custom_bwd,
    custom_fwd as _custom_fwd,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import _dtype


class autocast(_autocast):
    """amp.autocast("cuda"), which is disabled where there is no GPU."""

    def __init__(
        self, enabled: bool = True, dtype: _dtype = rushlight.float16, cache_enabled: bool = True
    ) -> None:
        _older_name("cuda.amp.autocast", 'amp.autocast("cuda")')
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """amp.custom_fwd(device_type="cuda")."""
    return _custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """amp.custom_bwd(device_type="cuda")."""
    return _custom_bwd(bwd, device_type="cuda")


__all__ = ["autocast", "custom_bwd", "custom_fwd"]
