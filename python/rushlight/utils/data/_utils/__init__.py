"""Import paths that existing programs use for parts of `utils.data`."""

import atexit
import importlib.util
import sys

from rushlight.utils.data._utils import collate, fetch, pin_memory, signal_handling, worker

__all__ = ["collate", "fetch", "pin_memory", "signal_handling", "worker"]

IS_WINDOWS = sys.platform == "win32"
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between two looks whether another process is still there
python_exit_status = False  # becomes True when the interpreter ends


def _set_python_exit_flag():
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)
