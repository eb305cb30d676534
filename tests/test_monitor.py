"""Events and statistics."""

import datetime

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
    short = Stat("time", [Aggregation.SUM], datetime.timedelta(0))
    short.add(5)
    short.add(7)
    assert short.get() == {Aggregation.SUM: 7}
    assert Writer.scalars[6:] == [("time.sum", 5), ("time.sum", 7)]
    monitor.unregister_event_handler(handle)
    monitor.log_event(Event(monitor.STAT_EVENT, datetime.datetime.now(), {"x": 1}))
    assert len(Writer.scalars) == 8
