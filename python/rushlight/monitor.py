"""Events and statistics of a program: handlers are called with each event that is logged."""

from __future__ import annotations

import datetime
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

    Args:
        name: what the values are.
        aggregations: what is made of them.
        window_size: how long a window is.
        max_samples: a window ends after so many values, too.
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: datetime.timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        self.name = name
        self._aggregations, self._seconds = tuple(aggregations), window_size.total_seconds()
        self._most, self._lock = max_samples, threading.Lock()
        self._values: list[float] = []
        self._last: dict[Aggregation, float] = dict.fromkeys(self._aggregations, 0.0)
        self._end = time.monotonic() + self._seconds

    @property
    def count(self) -> int:
        """How many values there are in the window."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Add a value; the window before is logged if it has ended."""
        with self._lock:
            ended = self._take() if time.monotonic() >= self._end else None
            self._values.append(float(v))
            full = self._take() if len(self._values) >= self._most else None
        for found in (ended, full):
            if found:
                self._log(found)

    def get(self) -> dict[Aggregation, float]:
        """What was made of the last window that ended."""
        with self._lock:
            found = self._take() if time.monotonic() >= self._end else None
        if found:
            self._log(found)
        return dict(self._last)

    def _take(self):
        values, self._values = self._values, []
        self._end = time.monotonic() + self._seconds
        if not values:
            return None
        self._last = {kind: float(_OF_VALUES[kind](values)) for kind in self._aggregations}
        return self._last

    def _log(self, found):
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
