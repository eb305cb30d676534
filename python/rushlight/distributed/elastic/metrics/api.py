"""Numbers about a run: where they go is the program's choice."""

from __future__ import annotations

import abc
import functools
import time
from typing import NamedTuple

from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class MetricData(NamedTuple):
    """A number, with its name, its group and when it was."""

    timestamp: float
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """Parameters of a handler.

    Args:
        params: name -> value.
    """

    __slots__ = ["params"]
    params: dict[str, str]

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = {} if params is None else params


class MetricHandler(abc.ABC):
    """Takes numbers."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one."""


class ConsoleMetricHandler(MetricHandler):
    """Prints numbers."""

    def emit(self, metric_data: MetricData) -> None:
        """Print one."""
        when, group, name, value = metric_data
        print(f"[{when}][{group}]: {name}={value}")


class NullMetricHandler(MetricHandler):
    """Drops numbers."""

    def emit(self, metric_data: MetricData) -> None:
        """Drop one."""


class MetricStream:
    """A group of numbers with its handler.

    Args:
        group_name: the group.
        handler: takes them.
    """

    group_name: str
    handler: MetricHandler

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: int) -> None:
        """Give the handler a number."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_handlers: dict[str | None, MetricHandler] = {None: NullMetricHandler()}  # None: other groups


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Choose who takes the numbers of a group, or of all groups without one of their own."""
    _handlers[group] = handler


def getStream(group: str) -> MetricStream:
    """A group's stream."""
    return MetricStream(group, _handlers.get(group, _handlers[None]))


def put_metric(metric_name: str, metric_value: int, metric_group: str = "torchelastic") -> None:
    """Give a number to the handler of a group.

    Example:
        >>> configure(ConsoleMetricHandler(), "doc")
        >>> put_metric("steps", 1, "doc")  # doctest: +ELLIPSIS
        [...][doc]: steps=1
    """
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: int) -> None:
    """The older name of `put_metric`."""
    _warn_program("publish_metric: use put_metric", FutureWarning)
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Milliseconds since a time of `time.time`."""
    return int((time.time() - start_time_in_seconds) * 1000)


def _measured(function, name, group):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        began, outcome = time.time(), "failure"
        try:
            result = function(*args, **kwargs)
            outcome = "success"
            return result
        finally:
            put_metric(f"{name}.{outcome}", 1, group)
            put_metric(f"{name}.duration.ms", get_elapsed_time_ms(began), group)

    return wrapper


def prof(fn: Callable[..., Any] | None = None, group: str = "torchelastic") -> Any:
    """A decorator: each call of a function gives `NAME.success` or `NAME.failure`, and
    `NAME.duration.ms`, where NAME has the function's class or module.

    Args:
        fn: the function; None for a decorator with arguments.
        group: the group of the numbers.
    """
    if fn is None:
        return functools.partial(prof, group=group)
    name = fn.__qualname__
    if "." not in name and fn.__module__:
        name = f"{fn.__module__.rpartition('.')[2]}.{name}"
    return _measured(fn, name, group)


def profile(group: str | None = None) -> Callable[..., Any]:
    """The older `prof`: names are those of functions alone."""
    _warn_program("profile: use prof", FutureWarning)
    return lambda function: _measured(function, function.__name__, group)


__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig",
    "NullMetricHandler", "configure", "getStream", "get_elapsed_time_ms", "prof", "profile",
    "publish_metric", "put_metric",
]  # fmt: skip
