"""Signal processing: the windows."""

from rushlight.signal import windows

__all__ = ["windows"]
