"""Events and statistics of a program: handlers are called with each event that is logged."""

from __future__ import annotations

import datetime
import math
import threading
import time
from dataclasses import dataclass

from rushlight._enums import NativeEnum as _NativeEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = [
    "Aggregation", "Event", "EventHandlerHandle", "STAT_EVENT", "Stat", "TensorboardEventHandler",
    "data_value_t", "log_event", "register_event_handler", "unregister_event_handler",
]  # fmt: skip

STAT_EVENT: str = "torch.monitor.Stat"
data_value_t: tuple[type, ...] = (str, int, float, bool)  # what the data of an event may be


class Aggregation(_NativeEnum):
    """What a `Stat` makes of its values."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


_OF_VALUES: dict[Aggregation, Callable[[list[float]], float]] = {
    Aggregation.VALUE: lambda values: values[-1],
    Aggregation.MEAN: lambda values: sum(values) / len(values),
    Aggregation.COUNT: len,
    Aggregation.SUM: sum,
    Aggregation.MAX: max,
    Aggregation.MIN: min,
}


@dataclass
class Event:
    """Something that happened.

    Args:
        name: what kind of event it is.
        timestamp: when it happened.
        data: names and values.
    """

    name: str
    timestamp: datetime.datetime
    data: Mapping[str, Any]


class EventHandlerHandle:
    """What `unregister_event_handler` takes."""

    def __init__(self, handler: Callable[[Event], Any]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """Have a function called with each event that is logged.

    Example:
        >>> import datetime
        >>> from rushlight import monitor
        >>> handle = monitor.register_event_handler(lambda event: print(event.name, event.data))
        >>> monitor.log_event(monitor.Event("step", datetime.datetime.now(), {"loss": 0.5}))
        step {'loss': 0.5}
        >>> monitor.unregister_event_handler(handle)
    """
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Call the function no more; nothing happens if it is not called any more."""
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Call all handlers with the event."""
    for handle in list(_handlers):
        handle._handler(event)


class Stat:
    """Statistics of values within a window of time, which are logged as an event at its end.

    Windows follow each other. What is in the last one is logged when the object goes.

    Args:
        name: what the values are.
        aggregations: what is made of them.
        window_size: how long a window is.
        max_samples: so many values are logged at once; more of the same window are left out, so
            that there is at most one event for each window.
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: datetime.timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        self._values: list[float] = []  # first: what __del__ looks at
        if not isinstance(window_size, datetime.timedelta):
            raise TypeError(f"Stat: window_size must be a timedelta, got {window_size!r}")
        if window_size <= datetime.timedelta(0):  # torch divides by it: the process ends
            raise ValueError(f"Stat: window_size must be positive, got {window_size!r}")
        self.name = name
        self._aggregations, self._seconds = tuple(aggregations), window_size.total_seconds()
        self._most, self._lock = max_samples, threading.Lock()
        self._last: dict[Aggregation, float] = dict.fromkeys(self._aggregations, 0.0)
        self._window, self._is_logged = self._present_window(), False

    @property
    def count(self) -> int:
        """How many values there are in the window."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Add a value; the window before is logged if it has ended."""
        value = math.fsum((v,))  # float(v) that takes no text
        with self._lock:
            events = self._end_window()
            if not self._is_logged:
                self._values.append(value)
                if len(self._values) >= self._most:
                    events += self._take()
                    self._is_logged = True
        self._log(events)

    def get(self) -> dict[Aggregation, float]:
        """What was made of the last window that was logged."""
        with self._lock:
            events = self._end_window()
        self._log(events)
        return dict(self._last)

    def __del__(self) -> None:
        self._log(self._take())

    def _present_window(self):
        return time.monotonic() // self._seconds

    def _end_window(self):
        """The values of a window that is over, as a list of what is to be logged."""
        window = self._present_window()
        if window == self._window:
            return []
        self._window, self._is_logged = window, False
        return self._take()

    def _take(self):
        values, self._values = self._values, []
        if not values:
            return []
        self._last = {kind: float(_OF_VALUES[kind](values)) for kind in self._aggregations}
        return [self._last]

    def _log(self, events):
        for found in events:
            data = {f"{self.name}.{kind.name.lower()}": value for kind, value in found.items()}
            log_event(Event(STAT_EVENT, datetime.datetime.now(), data))


class TensorboardEventHandler:
    """Writes statistics as scalars of a `SummaryWriter`."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
