"""The import path `utils.data._utils.pin_memory` of existing programs."""

from __future__ import annotations

from typing import Any

from rushlight.types import Device
from rushlight.utils.data.pin import pin_memory as _pin


def pin_memory(data: Any, device: Device = None) -> str:
    """Return `data` with its tensors pinned.

    Args:
        data: a batch.
        device: accepted for compatibility; the current GPU is used.
    """
    return _pin(data)
