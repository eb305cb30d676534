"""Events, their sums and tables beside torch's, of the same made-up events."""

import random
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import profiler_util as theirs  # noqa: E402

import rushlight as rl  # noqa: E402
from rushlight.autograd import profiler_util as ours  # noqa: E402

pytestmark = pytest.mark.torch

NAMES = ["aten::mul", "aten::add", "AddmmBackward0", "a name that is much too long for " + "x" * 60]
SHAPES = [[[2, 3], []], [[4]], []]  # the first is as wide as the title, beside which torch errs
STACKS = [["a.py(3): f", "b.py(9): g"], ["a.py(4): f"], ["long.py(1): " + "y" * 90], []]


def made_up(seed, **options):
    """Events, some inside of others: the arguments of each, and the number of its parent."""
    draw = random.Random(seed)
    made, end = [], 0.0
    for number in range(draw.randrange(1, 12)):
        parent = draw.randrange(len(made)) if made and draw.random() < 0.5 else None
        inside = made[parent][0] if parent is not None else None
        start = inside["start_us"] if inside else end
        last = inside["end_us"] if inside else start + draw.choice([0.5, 12.25, 2500.0, 3e6])
        end = max(end, last)
        made.append((dict(
            id=number, name=draw.choice(NAMES), thread=draw.choice([1, 1, 2]), start_us=start,
            end_us=last, overload_name=draw.choice(["", "Tensor"]) if options["overloads"] else "",
            input_shapes=draw.choice(SHAPES[: len(made) + 1]) if options["shapes"] else [],
            stack=draw.choice(STACKS) if options["stacks"] else [],
            cpu_memory_usage=draw.choice([0, 40, -5000, 3 << 20]), is_async=draw.random() < 0.1,
            node_id=draw.choice([-1, -1, 0]) if options["nodes"] else -1, flops=draw.choice([0, 0]),
            sequence_nr=draw.choice([-1, 5]), is_legacy=draw.random() < 0.2,
            scope=draw.choice([0, 7]), is_user_annotation=draw.random() < 0.2,
        ), parent))  # fmt: skip
    return made


def built(library, made):
    events = [library.FunctionEvent(**arguments) for arguments, _ in made]
    for event, (_, parent) in zip(events, made):
        if parent is not None:
            event.set_cpu_parent(events[parent])
            events[parent].append_cpu_child(event)
    found = library.EventList(events, use_device=None, profile_memory=True)
    found._tree_built = True  # torch refuses sums of others
    return found


OPTIONS = ("overloads", "shapes", "stacks", "nodes")
ATTRIBUTES = """
    id name node_id overload_name trace_name thread fwd_thread kernels count input_shapes
    concrete_inputs kwinputs stack scope use_device cpu_memory_usage device_memory_usage is_async
    is_remote sequence_nr device_index device_resource_id is_legacy flops is_user_annotation
    is_python_function activity_type self_cpu_percent total_cpu_percent total_device_percent
    flow_id flow_type flow_start external_id linked_correlation_id event_metadata
    structured_input_shapes structured_input_strides input_dtypes python_id python_parent_id
    python_module_id key cpu_time cpu_time_total self_cpu_time_total device_time device_time_total
    self_device_time_total self_cpu_memory_usage self_device_memory_usage cpu_time_str
    device_time_str cpu_time_total_str device_time_total_str self_cpu_time_total_str
    self_device_time_total_str
""".split()
OF_SUMS = [name for name in ATTRIBUTES if hasattr(theirs.FunctionEventAvg(), name)]


def differing(a, b, names):
    texts = {} if repr(a) == repr(b) else {"text": (repr(a), repr(b))}
    pairs = {name: (getattr(a, name), getattr(b, name)) for name in names}
    return texts | {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("seed", range(40))
def test_events_and_sums(seed):
    options = {name: bool(seed >> i & 1) for i, name in enumerate(OPTIONS)}
    made = made_up(seed, **options)
    mine, other = built(ours, made), built(theirs, made)
    groups = {"group_by_input_shapes": seed % 3 == 0, "group_by_stack_n": seed % 4,
              "group_by_overload_name": seed % 2 == 0}  # fmt: skip
    sums = [found.key_averages(**groups) for found in (mine, other)]
    tables = [{}, {"sort_by": "self_cpu_time_total", "row_limit": 3}, {"time_unit": "ms"},
              {"max_name_column_width": 20, "max_src_column_width": 30, "header": "HEAD"},
              {"max_shapes_column_width": 14, "sort_by": "cpu_memory_usage", "row_limit": 0},
              {"top_level_events_only": True, "row_limit": 2}]  # fmt: skip
    for arguments in tables:
        for a, b in ((mine, other), sums):
            assert lines(a.table(**arguments)) == lines(b.table(**arguments)), arguments
    for a, b in zip(mine, other):
        assert differing(a, b, ATTRIBUTES) == {}
    assert len(sums[0]) == len(sums[1])
    for a, b in [*zip(*sums), (mine.total_average(), other.total_average())]:
        assert differing(a, b, OF_SUMS) == {}
    assert mine.self_cpu_time_total == other.self_cpu_time_total


def lines(table):
    """Without the one that says in words of its own that rows are left out."""
    return [line.rstrip() for line in table.splitlines() if "top-level" not in line
            and "inside of no other" not in line]  # fmt: skip


def test_members():
    def of(kind):
        return {name for name in dir(kind) if not name.startswith("_")}

    for name in ("FunctionEvent", "FunctionEventAvg", "EventList", "Interval", "Kernel"):
        assert of(getattr(theirs, name)) <= of(getattr(ours, name)), name
    assert tuple(ours.Kernel("gemm", 0, 1.5)) == tuple(theirs.Kernel("gemm", 0, 1.5))
    assert rl.profiler.DeviceType is ours.FunctionEvent(0, "a", 0, 0, 1).device_type.__class__
    for kind in (rl.profiler.DeviceType, torch.profiler.DeviceType):
        assert str(kind.CUDA) == "DeviceType.CUDA" and int(kind.CUDA) == 1


@pytest.mark.parametrize("name", ["cuda_time_total", "self_cuda_time_total", "cuda_time",
                                  "self_cuda_memory_usage", "metadata_json"])  # fmt: skip
def test_older_names_warn(name):
    found = []
    for library in (ours, theirs):
        event = library.FunctionEvent(0, "a", 0, 0, 1, metadata_json="{}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = getattr(event, name)
        found.append((value, [w.category for w in caught]))
    assert found[0] == found[1] and found[0][1] == [FutureWarning]


def refusal(call):
    with pytest.raises(AssertionError) as caught:
        call()
    return type(caught.value)


@pytest.mark.parametrize("library", [ours, theirs])
def test_what_is_refused(library):
    event = library.FunctionEvent(0, "a", 0, 0, 1)
    on_gpu = library.FunctionEvent(0, "a", 0, 0, 1, device_type=_type_of(library).CUDA)
    total = library.FunctionEventAvg()
    total.add(event)
    for call in (lambda: on_gpu.append_kernel("k", 0, 1), lambda: event.append_cpu_child(on_gpu),
                 lambda: event.set_cpu_parent(3), lambda: total.add("a"),
                 lambda: total.add(library.FunctionEvent(0, "b", 0, 0, 1))):  # fmt: skip
        refusal(call)


def _type_of(library):
    return torch.profiler.DeviceType if library is theirs else rl.profiler.DeviceType
