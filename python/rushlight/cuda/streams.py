"""Streams, queues of work that a GPU runs in order, and events, marks in them."""

from __future__ import annotations

from rushlight import _C, _streams
from rushlight.cuda._device import index_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from rushlight.types import Device

_cuda = _C._cuda


class Stream(_streams.Stream):
    """A queue of a GPU's work. Work of several streams may run at the same time.

    Args:
        device: the GPU, the current one by default.
        priority: below 0 for streams that should go before others.

    Example:
        >>> import rushlight as torch
        >>> if torch.cuda.is_available():
        ...     side = torch.cuda.Stream()
        ...     with torch.cuda.stream(side):
        ...         x = torch.ones(3, device="cuda")
        ...     torch.cuda.current_stream().wait_stream(side)
    """

    _of_device = None  # its own __init__ takes the arguments

    def __init__(self, device: Device = None, priority: int = 0, *, stream_ptr: Any = None) -> None:
        self.device_index: Any = index_of(device, "Stream")
        self.priority = priority
        self.cuda_stream: Any = (
            _cuda.new_stream(self.device_index, int(priority < 0))
            if stream_ptr is None
            else stream_ptr
        )

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the lowest and the highest priority that streams have."""
        return 0, -1

    @property
    def device(self) -> Any:
        """The GPU that it belongs to."""
        import rushlight

        return rushlight.device("cuda", self.device_index)

    @property
    def _as_parameter_(self):
        import ctypes

        return ctypes.c_void_p(self.cuda_stream)

    @property
    def stream_id(self) -> Any:
        """A number that no other stream has."""
        return self.cuda_stream

    @property
    def native_handle(self) -> int:
        """The address by which other libraries know the stream."""
        return self.cuda_stream

    def is_capturing(self) -> bool:
        """Is what it is given recorded in a graph?"""
        from rushlight.cuda.graphs import is_current_stream_capturing

        with self:
            return is_current_stream_capturing()

    def query(self) -> Any:
        """Return whether all work that it was given is done."""
        return _cuda.stream_query(self.device_index, self.cuda_stream)

    def synchronize(self) -> None:
        """Wait until all work that it was given is done."""
        _cuda.stream_synchronize(self.device_index, self.cuda_stream)

    def wait_event(self, event: Any) -> None:
        """Let work that is given from now on wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Let work that is given from now on wait for what another stream was given so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Put an event, a new one by default, after what it was given so far, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stream)
            and self.cuda_stream == other.cuda_stream
            and self.device_index == other.device_index
        )

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __enter__(self) -> Self:
        self._before = StreamContext(self)
        self._before.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        return self._before.__exit__(*exception)

    def __repr__(self) -> str:
        return (
            f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.cuda_stream:#x}>"
        )


class ExternalStream(Stream):
    """A stream that another library made, by its address."""

    def __init__(self, stream_ptr: Any, device: Device = None) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


class Event(_streams.Event):
    """A mark in a stream, to wait for and to measure time with.

    Args:
        enable_timing: whether elapsed_time() may ask.
        blocking: accepted as in torch; waiting always leaves the processor to others.
        interprocess: whether other processes can wait for it, by its `ipc_handle()`.
    """

    _of_device = None  # its own __init__ takes the arguments

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        if interprocess and enable_timing:
            raise ValueError("cuda.Event: events of several processes have no timing")
        self._interprocess = bool(interprocess)
        self._timing = bool(enable_timing)
        self.blocking = blocking
        self.external = external
        self.cuda_event: int = 0
        self.device_index: int | None = None

    @property
    def event_id(self) -> int:
        """A number that no other event has; 0 before it was recorded."""
        return self.cuda_event

    @property
    def device(self) -> Any:
        """The GPU that it belongs to, None before it was recorded."""
        import rushlight

        return None if self.device_index is None else rushlight.device("cuda", self.device_index)

    def record(self, stream: Any = None) -> None:
        """Put the event after what a stream, by default the current one, was given so far."""
        stream = current_stream() if stream is None else stream
        if not self.cuda_event:
            self._create(stream.device_index)
        if self.device_index != stream.device_index:
            raise RuntimeError(
                f"Event.record: the event is of cuda:{self.device_index} and the stream of "
                f"cuda:{stream.device_index}"
            )
        _cuda.event_record(self.device_index, stream.cuda_stream, self.cuda_event)

    def _create(self, index):
        self.device_index = index
        if self._interprocess:
            self.cuda_event = _cuda.ipc_event(index)
        else:
            self.cuda_event = _cuda.event_create(index, int(self._timing))

    def ipc_handle(self) -> bytes:
        """Bytes by which another process makes an event of it, by `from_ipc_handle`.

        Raises: RuntimeError unless it was made with interprocess=True.
        """
        if not self._interprocess:
            raise RuntimeError("Event.ipc_handle: the event was not made with interprocess=True")
        if not self.cuda_event:
            self._create(_cuda.current_device())
        return _cuda.ipc_export_event(self.cuda_event)

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: bytes) -> Event:
        """The event of another process, which gave the handle.

        Args:
            device: the GPU that it belongs to.
            handle: from `ipc_handle()`.
        """
        event = cls(interprocess=True)
        event.device_index = index_of(device, "Event.from_ipc_handle")
        event.cuda_event = _cuda.ipc_open_event(handle, event.device_index)
        return event

    def wait(self, stream: Any = None) -> None:
        """Let a stream, by default the current one, wait for the event."""
        if self.cuda_event:
            stream = current_stream() if stream is None else stream
            _cuda.stream_wait_event(stream.device_index, stream.cuda_stream, self.cuda_event)

    def query(self) -> Any:
        """Return whether all work before it is done; True of an event that was not recorded."""
        return _cuda.event_query(self.cuda_event) if self.cuda_event else True

    def synchronize(self) -> None:
        """Wait until all work before it is done."""
        if self.cuda_event:
            _cuda.event_synchronize(self.device_index, self.cuda_event)

    def elapsed_time(self, end_event: Any) -> Any:
        """Return the milliseconds between this event and a later one."""
        if not (self.cuda_event and end_event.cuda_event):
            raise ValueError("Event.elapsed_time: both events must be recorded")
        return _cuda.event_elapsed(self.cuda_event, end_event.cuda_event)

    def __del__(self) -> None:
        if getattr(self, "cuda_event", 0):
            _cuda.event_destroy(self.cuda_event)

    def __repr__(self) -> str:
        return (
            f"<torch.cuda.Event {self.cuda_event:#x}>"
            if self.cuda_event
            else "<torch.cuda.Event uninitialized>"
        )


def current_stream(device: Device = None) -> Any:
    """Return the stream that a GPU's work of this thread goes to."""
    index = index_of(device, "current_stream")
    _cuda.init()
    return Stream(index, stream_ptr=_cuda.current_stream(index))


def default_stream(device: Device = None) -> Any:
    """Return the stream that is current where no other was chosen."""
    index = index_of(device, "default_stream")
    _cuda.init()
    return Stream(index, stream_ptr=0)


def set_stream(stream: Any) -> None:
    """Make a stream the current one, and its GPU the current GPU; None does nothing."""
    if stream is None:
        return
    _cuda.set_device(stream.device_index)
    _cuda.set_stream(stream.device_index, stream.cuda_stream)


class StreamContext:
    """A context with another current stream; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> Self:
        if self.stream is None:
            return
        index = self.stream.device_index
        self._device, self._stream = _cuda.current_device(), _cuda.current_stream(index)
        set_stream(self.stream)

    def __exit__(self, *exception: Any) -> None:
        if self.stream is None:
            return
        _cuda.set_stream(self.stream.device_index, self._stream)
        _cuda.set_device(self._device)


def stream(stream: Any) -> Any:
    """A context with another current stream; None changes nothing."""
    return StreamContext(stream)
