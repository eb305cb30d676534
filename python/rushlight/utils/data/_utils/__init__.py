"""Import paths that existing programs use for parts of `utils.data`."""

import sys

from rushlight.utils.data._utils import collate, fetch, pin_memory, signal_handling, worker

__all__ = ["collate", "fetch", "pin_memory", "signal_handling", "worker"]

IS_WINDOWS = sys.platform == "win32"
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between two looks whether another process is still there
