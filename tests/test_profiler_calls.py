"""What a profile sees of Python itself, and how its cycles follow each other."""

import importlib
import json
import sys
import threading
import warnings

import pytest

import rushlight as rl
from rushlight import _ignored, nn
from rushlight.autograd import profiler as older
from rushlight.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule
from rushlight.profiler.report import Limits, Report


def inner(x):
    return (x * x).sum()


def outer(x):
    y = inner(x)
    return len(y.shape)


def raising():
    raise ValueError("as planned")


def calls_of(prof):
    """Calls by Python as (name, name of the caller), the file left out."""
    by_id = {e.python_id: e for e in prof.events() if e.is_python_function}

    def short(event):
        return event and event.name.rpartition(": ")[2]

    return [(short(e), short(by_id.get(e.python_parent_id))) for e in by_id.values()]


def test_calls_are_events():
    x = rl.ones(3)
    with profile(with_stack=True) as prof:
        outer(x)
    calls = calls_of(prof)
    assert ("outer", "test_calls_are_events") in calls and ("inner", "outer") in calls
    assert ("<built-in method sum of Tensor object>", "inner") in calls
    assert ("<built-in function len>", "outer") in calls
    events = {e.name: e for e in prof.events()}
    place = f"test_profiler_calls.py({inner.__code__.co_firstlineno}): inner"
    (found,) = [e for e in prof.events() if e.name.endswith(place)]
    assert found.is_python_function and found.activity_type == "python_function"
    assert [child.name for child in found.cpu_children][0] == "aten::mul"
    product = events["aten::mul"]
    assert product.cpu_parent is found and product.where[2] == "inner"
    assert found.python_id > found.python_parent_id > 0 and product.python_id == -1
    with profile() as prof:
        outer(x)
    assert calls_of(prof) == []


def test_calls_that_raise_and_generators_end():
    def numbers():
        yield from (1, 2)

    with profile(with_stack=True) as prof:
        with pytest.raises(ValueError):
            raising()
        assert sum(numbers()) == 3
    ended = {e.name.rpartition(": ")[2]: e for e in prof.events() if e.is_python_function}
    last = max(e.time_range.end for e in prof.events())
    assert ended["raising"].time_range.end < last > ended["numbers"].time_range.end
    assert [name for name, _ in calls_of(prof)].count("numbers") == 3  # each time it goes on
    for event in prof.events():
        outside = event.cpu_parent
        if outside is not None:
            assert outside.time_range.start <= event.time_range.start
            assert event.time_range.end <= outside.time_range.end


def test_calls_of_other_threads():
    begin, end = threading.Event(), threading.Event()

    def work():
        begin.wait(60)
        outer(rl.ones(2))
        end.set()

    other = threading.Thread(target=work)
    other.start()
    with profile(with_stack=True) as prof:
        begin.set()
        end.wait(60)
    other.join()
    threads = {e.thread for e in prof.events() if e.name.endswith(": outer")}
    assert len(threads) == 1
    assert threads != {e.thread for e in prof.events() if e.name.endswith("other_threads")}
    with profile(with_stack=True) as prof:  # what was under way there is no part of this one
        outer(rl.ones(2))
    assert len({e.thread for e in prof.events()}) == 1


def test_nothing_watches_afterwards(monkeypatch):
    with profile(with_stack=True):
        pass
    assert sys.getprofile() is None
    seen = []
    monkeypatch.setattr(_ignored, "_warned", set())
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        with pytest.warns(UserWarning, match="another profiler, by sys.setprofile"):
            with profile(with_stack=True) as prof:
                outer(rl.ones(2))
        assert sys.getprofile() is not None and "call" in seen
    finally:
        sys.setprofile(None)
    assert calls_of(prof) == [] and {e.name for e in prof.events()} >= {"aten::mul", "aten::sum"}


def test_modules_among_calls(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2))
    with profile(with_stack=True, with_modules=True) as prof:
        model(rl.ones(1, 3))
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = [row for row in rows if row.get("cat") == "python_function"]
    numbers = [row["args"]["Python id"] for row in rows]
    assert numbers == sorted(set(numbers))
    assert all(row["args"]["Python parent id"] in (*numbers, None) for row in rows)
    modules = {row["name"]: row["args"]["Python module id"]
               for row in rows if row["name"].startswith("nn.Module: ")}  # fmt: skip
    assert modules == {"nn.Module: Sequential": 0, "nn.Module: 0": 1}


def test_arguments_of_events():
    x = rl.ones(2, 3)
    with profile(record_shapes=True) as prof:
        rl.cat([x.t(), x.t()], 1)
        x.to(rl.float16).sum(1)
    events = {e.name: e for e in prof.events()}
    joined = events["aten::cat"]
    assert joined.structured_input_shapes == [[[3, 2], [3, 2]], []]
    assert joined.structured_input_strides == [[[1, 3], [1, 3]], []]
    assert joined.input_dtypes == ["TensorList", "Scalar"]
    assert events["aten::sum"].input_dtypes[:2] == ["c10::Half", "ScalarList"]
    with profile() as prof:
        x.sum()
    (event,) = prof.events()
    assert event.structured_input_shapes == event.input_dtypes == []
    assert event.event_metadata is None


def test_words_of_a_part():
    with profile(record_shapes=True) as prof, record_function("part", "of the whole"):
        pass
    (event,) = prof.events()
    assert (event.name, event.concrete_inputs, event.scope) == ("part", ["of the whole"], 7)


def test_the_same_profile_as_the_older_one_has_it():
    prof = profile(record_shapes=True)
    assert prof.profiler is None
    with prof:
        assert rl.autograd.profiler._is_profiler_enabled
        rl.ones(3).exp()
    assert not rl.autograd.profiler._is_profiler_enabled
    older = prof.profiler
    assert type(older) is rl.autograd.profiler.profile
    assert [e.name for e in older.function_events] == [e.name for e in prof.events()]
    assert older.self_cpu_time_total == sum(e.self_cpu_time_total for e in prof.events())
    assert older.total_average().count == 2 and "aten::exp" in str(older)


# ---- cycles


def train(prof, steps):
    with prof:
        for _ in range(steps):
            rl.ones(2)
            prof.step()
    return prof


def test_events_of_all_cycles(monkeypatch):
    monkeypatch.setattr(_ignored, "_warned", set())
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    prof = train(profile(schedule=plan, acc_events=True), 8)
    assert {e.key: e.count for e in prof.key_averages()} == {"aten::ones": 4, "ProfilerStep*": 4}
    with pytest.warns(UserWarning, match="Profiler clears events at the end of each cycle"):
        prof = train(profile(schedule=plan), 8)
    assert [e.trace_name for e in prof.events() if e.is_user_annotation] == [
        "ProfilerStep#6", "ProfilerStep#7"]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Profiler clears events")
def test_names_of_traces(tmp_path):
    seen = []

    def ready(prof):
        prof.export_chrome_trace(tmp_path / "trace.json")
        seen.append(json.loads((tmp_path / "trace.json").read_text())["trace_id"])

    names = iter("abc")
    plan = schedule(wait=0, warmup=1, active=1, repeat=2)
    prof = profile(
        schedule=plan, on_trace_ready=ready, custom_trace_id_callback=lambda: next(names)
    )
    assert prof.get_trace_id() is None
    train(prof, 4)
    assert seen == ["a", "b"] and prof.get_trace_id() == "b"
    prof.set_custom_trace_id_callback(None)
    prof = train(profile(), 1)
    assert len(prof.get_trace_id()) == 32


def test_a_cycle_that_is_not_finished():
    seen = []
    for steps, kept in ((0, 0), (1, 0), (2, 1), (3, 1), (4, 1)):
        plan = schedule(wait=1, warmup=1, active=2, repeat=1)
        train(profile(schedule=plan, on_trace_ready=seen.append), steps)
        assert len(seen) == kept, steps
        seen.clear()


@pytest.mark.parametrize("action", [ProfilerAction.WARMUP, ProfilerAction.RECORD])
def test_incorrect_schedules(action):
    seen = []
    prof = profile(
        schedule=lambda step: action if step == 0 else ProfilerAction.NONE,
        on_trace_ready=seen.append,
    )
    with pytest.warns(UserWarning, match=f"Incorrect schedule: {action.name} followed by NONE"):
        train(prof, 1)
    assert seen == []


def test_what_a_profile_refuses():
    with pytest.raises(AssertionError, match="nothing to watch"):
        profile(activities=[])
    with pytest.raises(AssertionError, match="active=0"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.raises(AssertionError, match="must not be negative"):
        schedule(wait=0, warmup=1, active=1)(-1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError, match="prepare_trace"):
        profile().start_trace()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile(activities=[{ProfilerActivity.CPU: ["anything"]}])


def test_traces_by_hand():
    prof = profile()
    prof.prepare_trace()
    rl.ones(1)
    prof.start_trace()
    rl.zeros(2)
    prof.stop_trace()
    assert [e.name for e in prof.events()] == ["aten::zeros"]


def test_functions_in_a_report():
    with profile(with_stack=True, schedule=schedule(wait=0, warmup=1, active=1, repeat=1)) as prof:
        for _ in range(2):
            outer(rl.ones(2))
            prof.step()
    report = Report(prof.recording, Limits(1e10, 1e11))
    names = [name.rpartition(": ")[2] for name, _ in report.functions]
    assert {"outer", "inner"} <= set(names) and "test_functions_in_a_report" not in names
    times = [time for _, time in report.functions]
    assert times == sorted(times, reverse=True) and "Functions of Python" in str(report)
    with profile() as prof:
        outer(rl.ones(2))
    assert Report(prof.recording, Limits(1e10, 1e11)).functions == []


def test_options_of_torchs_recorder(monkeypatch):
    monkeypatch.setattr(_ignored, "_warned", set())
    config = rl._C._profiler._ExperimentalConfig
    with profile(with_stack=True, experimental_config=config(verbose=True)) as prof:
        outer(rl.ones(2))
    assert prof.key_averages(group_by_stack_n=2).table(sort_by="self_cpu_time_total", row_limit=2)
    with pytest.warns(UserWarning, match="experimental_config has no effect"):
        profile(experimental_config=config(profile_all_threads=True))
    assert older.profile(custom_trace_id_callback=lambda: "mine").create_trace_id() == "mine"
    assert len(older.profile().create_trace_id()) == 32


def test_ranges_for_intels_tools_are_refused():
    itt = importlib.import_module("rushlight.profiler.itt")
    assert not itt.is_available()
    for call in (lambda: itt.range_push("a"), itt.range_pop, lambda: itt.mark("a")):
        with pytest.raises(RuntimeError, match="cannot emit ITT ranges"):
            call()
    with pytest.raises(RuntimeError, match="'a 3'"), itt.range("a {}", 3):
        pass
