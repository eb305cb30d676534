"""oneDNN, which is not used: convolutions and matrix products have kernels of their own."""

from __future__ import annotations

import sys

from rushlight.backends._flags import assigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

enabled = True
deterministic = False
allow_tf32 = False
fp32_precision = "none"


def is_available() -> bool:
    """Is oneDNN there?"""
    return False


def flags(enabled: bool | None = None, deterministic: Any = None, allow_tf32: Any = None) -> Any:
    """Context in which the switches have the given values."""
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return assigned(sys.modules[__name__], values)
