"""Profiles: what they see, how times add up, schedules and traces."""

import gzip
import json
import os
import threading
import time

import pytest

import rushlight
from rushlight import nn
from rushlight.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_external,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from rushlight.utils.data import DataLoader, TensorDataset


def counts(prof):
    return {event.key: event.count for event in prof.key_averages()}


def training_step():
    """A small network, its data and a function that trains it once."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Sequential(nn.Linear(16, 4)))
    optimizer = rushlight.optim.SGD(model.parameters(), lr=0.1)
    x, y = rushlight.randn(4, 8), rushlight.randint(0, 4, (4,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    step()
    return step


def test_calls_are_counted_and_their_times_add_up():
    x = rushlight.rand(64, 64)
    model = nn.Linear(64, 64)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("block"):
            for _ in range(3):
                y = nn.functional.interpolate((model(x) @ x)[None, None], scale_factor=2)
        y.sum().backward()
    found = counts(prof)
    assert found["aten::linear"] == found["aten::matmul"] == 3
    assert [e.name for e in prof.events() if not e.in_backward].count("aten::mm") == 3
    assert found["block"] == 1
    sums = {event.key: event for event in prof.key_averages()}
    block = sums["block"]
    inside = sum(e.cpu_time_total for e in prof.events() if e.depth == 1 and not e.in_backward)
    assert block.cpu_time_total >= inside > 0
    assert block.self_cpu_time_total == pytest.approx(block.cpu_time_total - inside, rel=1e-3)
    by_shape = prof.key_averages(group_by_input_shape=True)
    shapes = [e.input_shapes for e in by_shape if e.key == "aten::matmul"]
    assert shapes == [[[64, 64], [64, 64]]]
    total = prof.events().total_average()
    assert total.key == "Total" and total.count == len(prof.events())


def test_forward_and_backward_are_linked():
    step = training_step()
    with profile(with_stack=True) as prof:
        step()
    found = counts(prof)
    for name in ("NllLossBackward0", "AddmmBackward0", "TanhBackward0"):
        assert found[name] == found[f"autograd::engine::evaluate_function: {name}"] >= 1
    assert found["torch::autograd::AccumulateGrad"] == 4
    assert found["Optimizer.step#SGD.step"] == found["Optimizer.zero_grad#SGD.zero_grad"] == 1
    events = prof.events()
    forward = {e.sequence_nr: e for e in events if e.name == "aten::tanh"}
    (backward,) = (e for e in events if e.name == "TanhBackward0")
    linked = forward[backward.sequence_nr]
    assert backward.fwd_thread == linked.thread == 1
    assert backward.stack == linked.stack
    assert linked.stack[0].startswith(__file__) and linked.stack[0].endswith(": step")
    assert backward.cpu_parent.name == "autograd::engine::evaluate_function: TanhBackward0"
    starts = [e.time_range.start for e in events]
    assert starts == sorted(starts) and [e.id for e in events] == list(range(1, len(events) + 1))


def test_paths_of_modules():
    step = training_step()
    with profile(with_modules=True) as prof:
        step()
    modules = [e for e in prof.events() if e.is_python_function]
    assert [e.name.removeprefix("nn.Module: ") for e in modules] == [
        "Sequential", "0", "1", "2", "2.0"
    ]  # fmt: skip
    assert modules[4].cpu_parent is modules[3] and modules[3].cpu_parent is modules[0]
    linear = [e for e in prof.events() if e.name == "aten::linear"]
    assert [e.module for e in linear] == ["0", "2.0"]
    of_gradients = {e.module for e in prof.events() if e.name == "AddmmBackward0"}
    assert of_gradients == {"0", "2.0"}


def test_nothing_that_runs_is_changed_by_being_watched():
    """Linear and ReLU stay one product, and a chain after batch norm stays lazy."""
    pair, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), rushlight.randn(2, 8)
    with profile() as prof:
        pair(x)
    assert counts(prof)["aten::_linear_activation"] == 1
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    image = rushlight.randn(1, 3, 8, 8)
    with profile() as prof:
        out = net(image)
    (relu,) = (e for e in prof.events() if e.name == "aten::relu")
    assert not relu.kernels, "whoever reads the result computes it"
    assert rushlight.isfinite(out).all()


def test_memory():
    with profile(profile_memory=True) as prof:
        x = rushlight.ones(1000)
        y = x + 1
        del x, y
    ones, add = prof.events()
    assert ones.cpu_memory_usage == ones.self_cpu_memory_usage == 4000
    assert add.cpu_memory_usage == 4000
    assert "4.00 KB" not in prof.events().table() and "3.91 KB" in prof.events().table()
    assert "Self CPU Mem" in prof.key_averages().table()
    changes = [r.memory for r in prof.recording.allocations]
    assert sum(changes) == 0 and changes.count(4000) == changes.count(-4000) == 2


def test_flops():
    a, b = rushlight.ones(2, 3), rushlight.ones(3, 5)
    image, weight = rushlight.ones(2, 3, 8, 8), rushlight.ones(4, 3, 3, 3)
    with profile(with_flops=True) as prof:
        a @ b
        nn.functional.conv2d(image, weight)
        a + 1
    flops = {e.key: e.flops for e in prof.key_averages() if e.flops}
    assert flops == {
        "aten::mm": 2 * 2 * 3 * 5,
        "aten::convolution": 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3),
        "aten::add": 6,
    }
    assert "Total KFLOPs" in prof.key_averages().table()


def test_custom_functions_go_by_their_names():
    class Twice(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = rushlight.ones(3, requires_grad=True)
    with profile() as prof:
        Twice.apply(x).sum().backward()
    (forward,) = (e for e in prof.events() if e.name == "Twice")
    (backward,) = (e for e in prof.events() if e.name == "TwiceBackward")
    assert [c.name for c in forward.cpu_children] == ["aten::mul"]
    assert [c.name for c in backward.cpu_children] == ["aten::mul"]
    assert forward.sequence_nr == backward.sequence_nr


@pytest.mark.parametrize("workers", [0, 2])
def test_waiting_for_data(workers):
    loader = DataLoader(TensorDataset(rushlight.arange(8.0)), batch_size=4, num_workers=workers)
    with profile() as prof:
        for _ in loader:
            pass
    kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    assert counts(prof)[f"enumerate(DataLoader)#{kind}.__next__"] == 3  # and one that ends it


def test_threads():
    x = rushlight.ones(1 << 20)
    rushlight.set_num_threads(max(2, rushlight.get_num_threads()))

    def work():
        with record_function("elsewhere"):
            rushlight.zeros(2)

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        for _ in range(20):
            x.exp()
    (elsewhere,) = (e for e in prof.events() if e.name == "elsewhere")
    (exp, *_) = (e for e in prof.events() if e.name == "aten::exp")
    assert elsewhere.thread != exp.thread == 1 or exp.thread != elsewhere.thread == 1
    assert [c.name for c in elsewhere.cpu_children] == ["aten::zeros"]
    assert {r.name for r in prof.recording.kernels if r.thread == os.getpid()} >= {"exp"}


def test_a_forked_process_is_not_watched():
    with profile() as prof:
        child = os.fork()
        if child == 0:
            rushlight.ones(3).exp()
            os._exit(0 if not rushlight.autograd.profiler._profiler_enabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
        rushlight.zeros(3)
    assert counts(prof) == {"aten::zeros": 1}


def test_external_spans():
    with profile() as prof:
        now = time.time_ns()
        record_external("nccl:all_reduce", now - 5000, now - 1000, device=0, stream=7)
    (event,) = prof.events()
    assert event.name == "nccl:all_reduce" and event.device_time_total == pytest.approx(4)
    assert (event.device_index, event.device_resource_id) == (0, 7)
    assert event.cpu_time_total == 0 and "Self CUDA" in prof.events().table()
    record_external("unseen", 0, 1)


def test_tables():
    with profile() as prof:
        rushlight.ones(2).exp()
    table = prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=1)
    lines = table.splitlines()
    assert "Self CPU %" in lines[1] and len([line for line in lines if "%" in line]) == 2
    assert "Self CPU time total" in table and "exp" in str(prof.key_averages())
    for all_rows in (-1, None):
        table = prof.key_averages().table(row_limit=all_rows)
        assert len([line for line in table.splitlines() if "%" in line]) == 3
    with pytest.raises(AttributeError, match="cannot sort by 'colour'"):
        prof.key_averages().table(sort_by="colour")


def test_nothing_is_recorded_outside():
    with record_function("unseen"):
        rushlight.ones(2)

    @record_function("seen")
    def work():
        return rushlight.ones(2)

    work()
    with profile() as prof:
        work()
    assert counts(prof) == {"aten::ones": 1, "seen": 1}
    with profile(), pytest.raises(RuntimeError, match="another profile"):
        profile().start()


@pytest.mark.filterwarnings("ignore:Profiler clears events")
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
    assert seen[0][1] == {"aten::ones": 2, "ProfilerStep*": 2}
    steps = [e.trace_name for e in prof.events() if e.is_user_annotation]
    assert steps == ["ProfilerStep#6", "ProfilerStep#7"]


def test_traces(tmp_path):
    with profile(
        on_trace_ready=tensorboard_trace_handler(tmp_path / "log", use_gzip=True),
        record_shapes=True,
    ) as prof:
        rushlight.ones(2, 3).exp()
    prof.add_metadata_json("about", '{"run": 3}')
    prof.export_chrome_trace(tmp_path / "trace.json")
    (written,) = (tmp_path / "log").iterdir()
    assert written.name.endswith(".pt.trace.json.gz")
    for text in ((tmp_path / "trace.json").read_text(), gzip.open(written, "rt").read()):
        events = [e for e in json.loads(text)["traceEvents"] if e.get("cat") == "cpu_op"]
        assert [e["name"] for e in events] == ["aten::ones", "aten::exp"]
        assert events[1]["args"]["Input Dims"] == [[2, 3]] and events[1]["dur"] > 0
        assert events[0]["ts"] + events[0]["dur"] <= events[1]["ts"]
    assert json.loads((tmp_path / "trace.json").read_text())["about"] == {"run": 3}


def test_a_trace_of_a_training_step(tmp_path):
    step = training_step()
    with profile(profile_memory=True, with_modules=True) as prof:
        step()
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    metadata = {(row["name"], row["tid"]) for row in rows if row["ph"] == "M"}
    assert ("process_name", 0) in metadata and ("thread_name", os.getpid()) in metadata
    spans = [row for row in rows if row["ph"] == "X"]
    assert all(row["dur"] >= 0 for row in spans)
    tanh = next(row for row in spans if row["name"] == "aten::tanh")
    node = next(row for row in spans if row["name"].endswith("evaluate_function: TanhBackward0"))
    starts = {row["id"]: row for row in rows if row["ph"] == "s"}
    ends = {row["id"]: row for row in rows if row["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) >= 4
    assert any(starts[i]["ts"] == tanh["ts"] and ends[i]["ts"] == node["ts"] for i in starts), (
        "an arrow from tanh to its node"
    )
    counters = [row["args"]["bytes"] for row in rows if row["ph"] == "C"]
    assert counters and max(counters) > 0


def test_stacks(tmp_path):
    with profile(with_stack=True) as prof:
        x = rushlight.ones(1 << 20)
        for _ in range(3):
            x = x.exp()
    prof.export_stacks(tmp_path / "stacks")
    lines = (tmp_path / "stacks").read_text().splitlines()
    (exp,) = (line for line in lines if "aten::exp" in line)
    place = f"test_profiler.py({test_stacks.__code__.co_firstlineno + 4}):_test_stacks;aten::exp "
    assert place in exp and int(exp.rpartition(" ")[2]) > 0
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(tmp_path / "stacks", "colour")
    with pytest.raises(AssertionError, match="with_stack"):
        profile().export_stacks(tmp_path / "stacks")


def test_the_older_place():
    with rushlight.autograd.profiler.profile(use_cuda=False) as prof:
        rushlight.ones(2)
        with rushlight.autograd.profiler.record_function("mine"):
            pass
    assert counts(prof) == {"aten::ones": 1, "mine": 1} and prof.self_cpu_time_total > 0
    assert "aten::ones" in prof.table() and prof.total_average().count == 2
    assert str(prof) == prof.table()
    with pytest.raises(RuntimeError, match="not reentrant"), prof:
        pass
    with rushlight.autograd.profiler.profile(enabled=False) as prof:
        rushlight.ones(2)
    assert counts(prof) == {}


@pytest.mark.parametrize("acc_events", [True, False])
def test_a_profile_that_ends_while_it_warms_up_counts_no_step_twice(acc_events):
    plan = schedule(wait=0, warmup=3, active=1, repeat=0)
    with rushlight.profiler.profile(schedule=plan, acc_events=acc_events) as watched:
        for _ in range(10):
            rushlight.add(rushlight.ones(1), 1)
            watched.step()
    counts = [e.count for e in watched.key_averages() if e.key.endswith("add")]
    assert counts == ([2] if acc_events else [])
