"""The profiler: which calls it sees, how their times add up, schedules and traces."""

import json
import threading

import pytest

import rushlight
from rushlight import nn
from rushlight.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def counts(prof):
    return {event.key: event.count for event in prof.key_averages()}


def test_calls_are_counted_and_their_times_add_up():
    x = rushlight.rand(64, 64)
    model = nn.Linear(64, 64)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("block"):
            for _ in range(3):
                y = nn.functional.interpolate((model(x) @ x)[None, None], scale_factor=2)
        y.sum().backward()
    found = counts(prof)
    assert found["linear"] == found["matmul"] == found["interpolate"] == 3 and found["block"] == 1
    sums = {event.key: event for event in prof.key_averages()}
    block = sums["block"]
    inside = sum(e.cpu_time_total for e in prof.events() if e.depth == 1)
    assert block.cpu_time_total >= inside > 0
    assert block.self_cpu_time_total == pytest.approx(block.cpu_time_total - inside)
    assert "_interpolate" in sums, "the operations inside a function written in Python"
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert [e.input_shapes for e in by_shape if e.key == "matmul"] == [[[64, 64], [64, 64]]]
    assert rushlight.overrides._get_current_function_mode() is None


def test_tables():
    with profile() as prof:
        rushlight.ones(2).exp()
    table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=1)
    lines = table.splitlines()
    assert "Self CPU %" in lines[1] and len([line for line in lines if "%" in line]) == 2
    assert "Self CPU time total" in table and "exp" in str(prof.key_averages())
    with pytest.raises(ValueError, match="cannot sort by 'colour'"):
        prof.key_averages().table(sort_by="colour")


def test_nothing_is_recorded_outside():
    with record_function("unseen"):
        rushlight.ones(2)

    @record_function("seen")
    def work():
        return rushlight.ones(2)

    work()
    with profile() as prof:
        thread = threading.Thread(target=rushlight.zeros, args=(2,))
        thread.start()
        thread.join()
        work()
    assert counts(prof) == {"ones": 1, "seen": 1}
    with profile(), pytest.raises(RuntimeError, match="another profile"):
        profile().start()


def test_schedules():
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    names = "".join(
        plan(i).name[0] if plan(i) is not ProfilerAction.RECORD_AND_SAVE else "S" for i in range(11)
    )
    assert names == "NNWRSNWRSNN"
    seen = []

    def ready(prof):
        seen.append((prof.step_num, counts(prof)))

    with profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready
    ) as prof:
        for _ in range(9):
            rushlight.ones(2)
            prof.step()
    assert [step for step, _ in seen] == [4, 8]
    assert seen[0][1] == {"ones": 2, "ProfilerStep#2": 1, "ProfilerStep#3": 1}


def test_traces(tmp_path):
    with profile(
        on_trace_ready=tensorboard_trace_handler(tmp_path / "log"), record_shapes=True
    ) as prof:
        rushlight.ones(2, 3).exp()
    prof.export_chrome_trace(tmp_path / "trace.json")
    (written,) = (tmp_path / "log").iterdir()
    for path in (tmp_path / "trace.json", written):
        events = json.loads(path.read_text())["traceEvents"]
        assert [e["name"] for e in events] == ["ones", "exp"]
        assert events[1]["args"] == {"Input Dims": [[2, 3]]} and events[1]["dur"] > 0
        assert events[0]["ts"] + events[0]["dur"] <= events[1]["ts"]
    prof.export_stacks(tmp_path / "stacks")
    assert len((tmp_path / "stacks").read_text().splitlines()) == 2


def test_the_older_place():
    with rushlight.autograd.profiler.profile(use_cuda=False) as prof:
        rushlight.ones(2)
        with rushlight.autograd.profiler.record_function("mine"):
            pass
    assert counts(prof) == {"ones": 1, "mine": 1} and prof.self_cpu_time_total > 0
    assert "ones" in prof.table() and prof.total_average().count == 2
    with rushlight.autograd.profiler.profile(enabled=False) as prof:
        rushlight.ones(2)
    assert counts(prof) == {}
