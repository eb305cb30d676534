"""The CPU as a device, with the interface that devices share."""

import contextlib

from rushlight.cpu import amp


def is_available():
    """Can tensors live here? Always."""
    return True


def device_count():
    """How many such devices there are: one."""
    return 1


def current_device():
    """The name of the device."""
    return "cpu"


def set_device(device):
    """Does nothing: there is one."""


def synchronize(device=None):
    """Does nothing: an operation has run when its call returns."""


def current_stream(device=None):
    """The stream of the device: operations run in the order of their calls."""
    return Stream()


class Stream:
    """Stands where code written for several kinds of devices wants a stream."""

    def __init__(self, priority=-1):
        self.priority = priority

    def wait_stream(self, stream):
        """Does nothing: operations run in order."""


@contextlib.contextmanager
def stream(stream):
    """A context that changes nothing."""
    yield


__all__ = [
    "Stream", "amp", "current_device", "current_stream", "device_count", "is_available",
    "set_device", "stream", "synchronize",
]  # fmt: skip
