"""oneDNN, which computes convolutions and float32 matrix products."""

import sys

from rushlight.backends._flags import assigned

enabled = True
deterministic = False
allow_tf32 = False
fp32_precision = "none"


def is_available():
    """Is oneDNN there?"""
    return True


def flags(enabled=None, deterministic=None, allow_tf32=None):
    """Context in which the switches have the given values."""
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return assigned(sys.modules[__name__], values)
