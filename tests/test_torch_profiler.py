"""Profiles beside torch's: names of events, attributes, tables."""

import re

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = pytest.mark.torch


def step_of(library):
    library.manual_seed(0)
    model = library.nn.Sequential(
        library.nn.Linear(8, 16), library.nn.Sigmoid(), library.nn.Linear(16, 4)
    )
    optimizer = library.optim.SGD(model.parameters(), lr=0.1)
    x = library.randn(4, 8)

    def step():
        optimizer.zero_grad()
        (model(x).exp() * 2).sum().backward()
        optimizer.step()

    step()
    return step


def profiled(library, **options):
    step = step_of(library)
    with library.profiler.profile(**options) as prof, library.profiler.record_function("mine"):
        step()
    return prof


def test_names_of_events():
    ours, theirs = (
        {e.key: e.count for e in profiled(library).key_averages()} for library in (rushlight, torch)
    )
    for name in (
        "mine", "aten::linear", "aten::sigmoid", "aten::exp", "aten::mul", "aten::sum",
        "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad",
        "autograd::engine::evaluate_function: MulBackward0", "MulBackward0", "ExpBackward0",
        "SigmoidBackward0", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
        "torch::autograd::AccumulateGrad",
    ):  # fmt: skip
        assert ours[name] >= 1 and name in theirs, name
    assert ours["aten::linear"] == theirs["aten::linear"] == 2
    assert ours["torch::autograd::AccumulateGrad"] == theirs["torch::autograd::AccumulateGrad"]


def public(value):
    return {name for name in dir(value) if not name.startswith("_")}


def test_attributes_of_events():
    options = {"record_shapes": True, "profile_memory": True, "with_flops": True}
    ours, theirs = profiled(rushlight, **options), profiled(torch, **options)
    # What torch keeps of its own trace files.
    internal = {
        "event_metadata", "input_dtypes", "python_id", "python_module_id", "python_parent_id",
        "structured_input_shapes", "structured_input_strides", "self_cuda_memory_usage",
    }  # fmt: skip
    assert public(theirs.events()[3]) - public(ours.events()[3]) <= internal
    assert public(theirs.key_averages()[3]) <= public(ours.key_averages()[3])
    assert public(theirs.events()) <= public(ours.events())
    linear = {
        library: next(e for e in prof.events() if e.name == "aten::linear")
        for library, prof in (("ours", ours), ("theirs", theirs))
    }
    for name in (
        "input_shapes", "count", "is_async", "is_remote", "scope", "node_id", "is_legacy",
        "overload_name", "trace_name", "use_device", "cpu_memory_usage", "thread",
    ):  # fmt: skip
        assert getattr(linear["ours"], name) == getattr(linear["theirs"], name), name
    flops = [
        sum(e.flops or 0 for e in prof.key_averages() if "mm" in e.key or "linear" in e.key)
        for prof in (ours, theirs)
    ]
    assert flops[0] == flops[1] > 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_limit": 3, "sort_by": "count"},
        {"header": "HEAD", "max_name_column_width": 20},
        {"time_unit": "ms", "top_level_events_only": True},
    ],
)
def test_tables(options):
    def layout(text):
        """Columns and rules, without what this run took, and without rows."""
        kept = re.compile(r"^(-+  )+|^=+$|^ *Name|^HEAD")
        return [line for line in text.splitlines() if kept.match(line)]

    shown = {"record_shapes": True, "profile_memory": True}
    ours, theirs = (
        [e for e in profiled(library, **shown).events() if e.name == "aten::exp"]
        for library in (rushlight, torch)
    )
    mine = rushlight.profiler.EventList(ours, profile_memory=True)
    other = torch.autograd.profiler_util.EventList(theirs, profile_memory=True, use_device=None)
    assert layout(mine.table(**options)) == layout(other.table(**options))


@pytest.mark.parametrize("number", [0, 0.4, 999.9, 1234.5, 1234567.8])
def test_times(number):
    from rushlight.profiler.events import format_time

    assert format_time(number) == torch.autograd.profiler_util._format_time(number)


@pytest.mark.parametrize("number", [0, 7, 1023, 1024, -5000, 3 << 20, 5 << 30])
def test_bytes(number):
    from rushlight.profiler.events import format_memory

    assert format_memory(number) == torch.autograd.profiler_util._format_memory(number)


def test_schedules():
    options = {"wait": 1, "warmup": 2, "active": 3, "repeat": 2, "skip_first": 2}
    for more in ({}, {"skip_first_wait": 1}):
        ours = rushlight.profiler.schedule(**options, **more)
        theirs = torch.profiler.schedule(**options, **more)
        assert [ours(i).name for i in range(20)] == [theirs(i).name for i in range(20)]
