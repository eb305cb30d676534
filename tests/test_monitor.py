"""Events and statistics."""

import datetime

import pytest

from rushlight import monitor
from rushlight.monitor import Aggregation, Event, Stat


def test_handlers_get_the_events():
    seen, event = [], Event("a", datetime.datetime.now(), {"x": 1})
    first = monitor.register_event_handler(seen.append)
    second = monitor.register_event_handler(seen.append)
    monitor.log_event(event)
    monitor.unregister_event_handler(first)
    monitor.unregister_event_handler(first)
    monitor.log_event(event)
    monitor.unregister_event_handler(second)
    monitor.log_event(event)
    assert seen == [event] * 3


def test_a_window_of_values_is_logged():
    class Writer:
        scalars = []

        def add_scalar(self, name, value, walltime):
            assert walltime > 0
            self.scalars.append((name, value))

    handle = monitor.register_event_handler(monitor.TensorboardEventHandler(Writer()))
    hour = datetime.timedelta(hours=1)
    stat = Stat("loss", list(Aggregation), hour, max_samples=3)
    for value in (3.0, 1.0):
        stat.add(value)
    assert stat.count == 2 and set(stat.get().values()) == {0.0} and not Writer.scalars
    stat.add(2.0)
    assert stat.count == 0 and stat.get() == {
        Aggregation.VALUE: 2, Aggregation.MEAN: 2, Aggregation.COUNT: 3, Aggregation.SUM: 6,
        Aggregation.MAX: 3, Aggregation.MIN: 1,
    }  # fmt: skip
    assert dict(Writer.scalars)["loss.mean"] == 2 and len(Writer.scalars) == 6
    for value in (5.0, 6.0, 7.0):
        stat.add(value)  # of a window that is logged
    assert stat.count == 0 and len(Writer.scalars) == 6
    monitor.unregister_event_handler(handle)
    monitor.log_event(Event(monitor.STAT_EVENT, datetime.datetime.now(), {"x": 1}))
    assert len(Writer.scalars) == 6


@pytest.fixture
def events():
    found = []
    handle = monitor.register_event_handler(lambda event: found.append(event.data))
    yield found
    monitor.unregister_event_handler(handle)


def test_windows_follow_each_other(events, monkeypatch):
    clock = iter([1000.0, 1000.0, 1009.9, 1009.9, 1010.0, 1025.0, 1030.0])
    monkeypatch.setattr(monitor.time, "monotonic", lambda: next(clock))
    stat = Stat("s", [Aggregation.SUM], datetime.timedelta(seconds=10), max_samples=2)
    for value in (1, 2, 4, 8, 16):
        stat.add(value)
    assert events == [{"s.sum": 3}, {"s.sum": 8}]
    assert stat.get() == {Aggregation.SUM: 16} and events[2:] == [{"s.sum": 16}]


def test_what_is_left_is_logged_when_the_object_goes(events):
    stat = Stat("s", [Aggregation.COUNT], datetime.timedelta(hours=1))
    for value in range(3):
        stat.add(value)
    assert not events
    del stat
    assert events == [{"s.count": 3}]
    del events[:]
    Stat("s", [Aggregation.COUNT], datetime.timedelta(hours=1))
    assert not events


@pytest.mark.parametrize("value", ["3", b"3", None, 1j])
def test_values_are_numbers(value):
    stat = Stat("s", [Aggregation.SUM], datetime.timedelta(hours=1))
    with pytest.raises(TypeError):
        stat.add(value)
    assert stat.count == 0


@pytest.mark.parametrize(
    ("window", "error"),
    [(datetime.timedelta(0), ValueError), (-datetime.timedelta(1), ValueError), (5.0, TypeError)],
)
def test_windows_are_of_some_time(window, error):
    with pytest.raises(error, match="Stat: window_size must be "):
        Stat("s", [Aggregation.SUM], window)
