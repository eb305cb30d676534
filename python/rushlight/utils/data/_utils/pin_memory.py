"""The import path `utils.data._utils.pin_memory` of existing programs."""

from __future__ import annotations

import queue
from typing import Any

import rushlight
from rushlight._utils import ExceptionWrapper
from rushlight.types import Device
from rushlight.utils.data.pin import pin_memory as _pin


def pin_memory(data: Any, device: Device = None) -> str:
    """Return `data` with its tensors pinned.

    Args:
        data: a batch.
        device: accepted for compatibility; the current GPU is used.
    """
    return _pin(data)


def _pin_memory_loop(in_queue, out_queue, device_id, done_event, device):
    """Pin what comes as (number, batch), in a thread of another library's loader, to its end."""
    from rushlight.utils.data._utils import MP_STATUS_CHECK_INTERVAL as seconds

    rushlight.cuda.set_device(device_id)
    while not done_event.is_set():
        try:
            number, data = in_queue.get(timeout=seconds)
        except queue.Empty:
            continue
        if not isinstance(data, ExceptionWrapper):
            try:
                data = pin_memory(data, device)
            except Exception:
                data = ExceptionWrapper(where=f"in pin memory thread for device {device_id}")
        while not done_event.is_set():
            try:
                out_queue.put((number, data), timeout=seconds)
                break
            except queue.Full:
                continue
