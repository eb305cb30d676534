"""cuDNN's switches; the library itself is not in a build without CUDA."""

from __future__ import annotations

import sys

from rushlight.backends._flags import assigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """Is cuDNN there?"""
    return False


def version() -> None:
    """cuDNN's version; None without it."""
    return None


def is_acceptable(tensor: Tensor) -> bool:
    """Could cuDNN work on this tensor?"""
    return False


def flags(
    enabled: bool | None = None,
    benchmark: Any = None,
    benchmark_limit: Any = None,
    deterministic: Any = None,
    allow_tf32: Any = None,
) -> Any:
    """Context in which the switches have the given values."""
    values = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit,
              "deterministic": deterministic, "allow_tf32": allow_tf32}  # fmt: skip
    return assigned(sys.modules[__name__], values)
