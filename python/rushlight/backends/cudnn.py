"""cuDNN's switches; the library itself is not in a build without CUDA."""

import sys

from rushlight.backends._flags import assigned

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available():
    """Is cuDNN there?"""
    return False


def version():
    """cuDNN's version; None without it."""
    return None


def is_acceptable(tensor):
    """Could cuDNN work on this tensor?"""
    return False


def flags(enabled=None, benchmark=None, benchmark_limit=None, deterministic=None, allow_tf32=None):
    """Context in which the switches have the given values."""
    values = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit,
              "deterministic": deterministic, "allow_tf32": allow_tf32}  # fmt: skip
    return assigned(sys.modules[__name__], values)
