"""The CPU as a device, with the interface that devices share."""

from __future__ import annotations

import contextlib

from rushlight.cpu import amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.types import Device


def is_available() -> bool:
    """Can tensors live here? Always."""
    return True


def device_count() -> int:
    """How many such devices there are: one."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Device) -> None:
    """Does nothing: there is one."""


def synchronize(device: Device = None) -> None:
    """Does nothing: an operation has run when its call returns."""


def current_stream(device: Device = None) -> Stream:
    """The stream of the device: operations run in the order of their calls."""
    return Stream()


class Stream:
    """Stands where code written for several kinds of devices wants a stream."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Does nothing: operations run in order."""


@contextlib.contextmanager
def stream(stream: Stream) -> Iterator[Any]:
    """A context that changes nothing."""
    yield


__all__ = [
    "Stream", "amp", "current_device", "current_stream", "device_count", "is_available",
    "set_device", "stream", "synchronize",
]  # fmt: skip
