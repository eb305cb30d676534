"""cuDNN's switches: how convolutions of GPUs are computed."""

from __future__ import annotations

import sys
from types import ModuleType

from rushlight._C import _cuda
from rushlight.backends._flags import assigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

# May convolutions use cuDNN? Should it be timed which of its ways is the quickest, of how many? May
# sums differ from run to run? May operands of float32 be rounded to TF32?
enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"

_SWITCHES = ("enabled", "benchmark", "deterministic", "allow_tf32", "benchmark_limit")


class _Switches(ModuleType):
    """A module that tells the kernels what is assigned to it."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _SWITCHES:
            _cuda.set_cudnn_switches(*(int(getattr(self, each)) for each in _SWITCHES))


sys.modules[__name__].__class__ = _Switches


def is_available() -> bool:
    """Is cuDNN there?"""
    return version() is not None


def version() -> int | None:
    """cuDNN's version, 91002 for 9.10.2; None without it."""
    return _cuda.cudnn_version() or None


def is_acceptable(tensor: Tensor) -> bool:
    """Could cuDNN work on this tensor?"""
    return enabled and tensor.is_cuda and tensor.is_floating_point() and is_available()


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
