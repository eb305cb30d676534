"""`Stream` and `Event` of any device: queues of work, and marks in them.

On the CPU and on meta an operation has run when its call returns, so that their one stream is
always idle; streams and events of GPUs are those of `cuda`, which are subclasses.
"""

from __future__ import annotations

import operator

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from rushlight.types import Device

_TYPES = {"cpu": 0, "cuda": 1, "meta": 14}  # DeviceType, whose numbers are public
_NO_HANDLE = "torch.Event ipc is not supported for devices of type "


def _device_of(device, name):
    """The device that an argument names: by default a GPU if there is one, else the CPU."""
    if device is None:
        return rushlight.device("cuda" if rushlight.cuda.is_available() else "cpu")
    if isinstance(device, (str, rushlight.device)):
        return rushlight.device(device)
    if isinstance(device, int) and not isinstance(device, bool):
        if not rushlight.cuda.is_available():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return rushlight.device("cuda", device)
    raise TypeError(
        f"{name}(): argument 'device' (position 1) must be torch.device, "
        f"not {type(device).__name__}"
    )


class _ByDevice(type):
    """The class of both: a call makes an object of cuda's for a GPU."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls._of_device is not None:
            return cls._of_device(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _make(cls, *args):
        return super().__call__(*args)


class Stream(metaclass=_ByDevice):
    """A queue of a device's work, which runs in order.

    Args:
        device: where; by default a GPU if there is one, else the CPU.
        priority: below 0 for streams of a GPU that should go before others.
        stream_id, device_index, device_type: a stream that there is, by its numbers.

    Example:
        >>> rushlight.Stream("cpu").query()
        True
    """

    device: rushlight.device
    device_index: int
    stream_id: int

    def __init__(self, device: Device, stream_id: int = 0) -> None:
        super().__init__()
        self.device = device
        self.device_index = -1 if device.index is None else device.index
        self.stream_id = stream_id

    @classmethod
    def _of_device(
        cls,
        device: Device = None,
        *,
        priority: int = 0,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> Stream:
        try:
            priority = operator.index(priority)
        except TypeError:
            raise TypeError(
                f"Stream(): argument 'priority' must be int, not {type(priority).__name__}"
            ) from None
        numbers = (stream_id, device_index, device_type)
        if any(number is not None for number in numbers):
            if device is not None or None in numbers:
                raise TypeError(
                    "Stream(): stream_id, device_index and device_type belong together, "
                    "and leave no room for a device"
                )
            kind = {number: name for name, number in _TYPES.items()}.get(device_type)
            if kind is None:
                raise RuntimeError(f"Stream(): there are no devices of type {device_type}")
            device = rushlight.device(kind, *[device_index] * (device_index >= 0))
        device = _device_of(device, "Stream")
        if device.type == "cuda":
            rushlight.cuda.init()
            return rushlight.cuda.Stream(device, priority, stream_ptr=stream_id)
        return cls._make(device, stream_id or 0)  # one stream goes before no other

    @property
    def device_type(self) -> int:
        """A number for the type of the device."""
        return _TYPES[self.device.type]

    @property
    def native_handle(self) -> int:
        """The address by which other libraries know the stream: of a GPU's alone."""
        raise RuntimeError("Backend doesn't support getting stream native handle.")

    def is_capturing(self) -> bool:
        """Is what it is given recorded in a graph?"""
        return False

    def query(self) -> bool:
        """Return whether all work that it was given is done."""
        return True

    def synchronize(self) -> None:
        """Wait until all work that it was given is done."""

    def wait_event(self, event: Event) -> None:
        """Let work that is given from now on wait for an event."""
        _check(event, Event, "wait_event")

    def wait_stream(self, stream: Stream) -> None:
        """Let work that is given from now on wait for what another stream was given so far."""
        _check(stream, Stream, "wait_stream")
        stream.record_event()

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event, a new one by default, after what it was given so far, and return it.

        Raises: RuntimeError on devices without events, as the CPU.
        """
        event = Event(self.device) if event is None else event
        _check(event, Event, "record_event").record(self)
        return event

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_index, self.stream_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )


class Event(metaclass=_ByDevice):
    """A mark in a stream, to wait for and to measure time with.

    Args:
        device: whose streams; by default a GPU if there is one, else the CPU.
        enable_timing: whether elapsed_time() may ask.
        blocking: accepted as in torch; waiting always leaves the processor to others.
        interprocess: whether other processes can wait for it: on GPUs alone.

    Example:
        >>> rushlight.Event("cpu").query()
        True
    """

    device: rushlight.device
    event_id: int

    def __init__(self, device: Device, timing: bool = False) -> None:
        super().__init__()
        self.device = device
        self.event_id = 0
        self._timing = timing

    @classmethod
    def _of_device(
        cls,
        device: Device = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> Event:
        flags = {"enable_timing": enable_timing, "blocking": blocking, "interprocess": interprocess}
        for name, value in flags.items():
            if not isinstance(value, bool):
                raise TypeError(
                    f"Event(): argument '{name}' must be bool, not {type(value).__name__}"
                )
        device = _device_of(device, "Event")
        if device.type != "cuda":
            if interprocess:
                raise NotImplementedError(f"Event(interprocess=True): {_NO_HANDLE}{device.type}")
            return cls._make(device, enable_timing)
        rushlight.cuda.init()
        event = rushlight.cuda.Event(enable_timing, blocking, interprocess)
        if device.index is not None:
            event._create(device.index)
        return event

    def record(self, stream: Stream | None = None) -> None:
        """Put the event after what a stream, by default the current one, was given so far.

        Raises: RuntimeError on devices without events, as the CPU.
        """
        if stream is not None:
            _check(stream, Stream, "record")
        raise RuntimeError(f"{self.device.type} backend doesn't support events.")

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream, by default the current one, wait for the event."""
        if stream is not None:
            _check(stream, Stream, "wait")

    def query(self) -> bool:
        """Return whether all work before it is done; True of an event that was not recorded."""
        return True

    def synchronize(self) -> None:
        """Wait until all work before it is done."""

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between this event and a later one."""
        if not (self._timing and _check(end_event, Event, "elapsed_time")._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise ValueError("Both events must be recorded before calculating elapsed time.")

    def ipc_handle(self) -> bytes:
        """Bytes by which another process makes an event of it: of a GPU's alone."""
        raise NotImplementedError(f"{_NO_HANDLE}{self.device.type}")

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: bytes) -> Event:
        """The event of another process, which gave the handle: of a GPU's alone."""
        device = _device_of(device, "Event.from_ipc_handle")
        if device.type != "cuda":
            raise NotImplementedError(f"{_NO_HANDLE}{device.type}")
        return rushlight.cuda.Event.from_ipc_handle(device, handle)

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        return (
            f"torch.Event device_type={self.device.type}, device_index={index}, "
            f"event_flag={int(self._timing)}, event_id=0"
        )


for _class in (Stream, Event):
    _class._of_device.__func__.__qualname__ = _class.__name__  # for errors of arguments
del _class


def _check(value, kind, name):
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected a {kind.__name__}, got {type(value).__name__}")
    return value
