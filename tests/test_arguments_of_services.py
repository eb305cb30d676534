"""Every argument of what loads data, keeps files and watches programs does something: with another
value than its default something changes, or it raises an error or a warning. What does not is
listed with its reason, and the list is no longer than it must be. tests/ranks/arguments.py does the
same for what several processes do together.
"""

import enum
import gc
import importlib
import inspect
import io
import json
import pickle
import random
import types
import warnings

import pytest
from test_arguments import some_has_effect

import rushlight as rl
from rushlight import _ignored, profiler
from rushlight.autograd import profiler as older
from rushlight.utils import data

ONE_WAY = "there is one way to watch the CPU"
ONE_CYCLE = "a profile without a schedule has one cycle"
ONE_NAME = "overloads of an operation have no names of their own"
NO_EFFECT = {
    "autograd.profiler.profile": {"use_kineto": ONE_WAY, "acc_events": ONE_CYCLE},
    "profiler.EventList.key_averages": {"group_by_overload_name": ONE_NAME},
}


class Numbers(data.Dataset):
    """Samples that tell who reads them."""

    def __len__(self):
        return 7

    def __getitem__(self, i):
        info = data.get_worker_info()
        who = -1.0 if info is None else float(info.id)
        return rl.tensor([float(i), who])


class Records(data.IterableDataset):
    def __iter__(self):
        return iter([rl.tensor([1.0]), rl.tensor([2.0])])


def loaded(kind=data.DataLoader, **arguments):
    rl.manual_seed(0)
    loader = kind(Numbers(), **arguments)
    batches = [[t.tolist() for t in batch] if isinstance(batch, list) else batch.tolist()
               for _ in range(2) for batch in loader]  # fmt: skip
    settings = {name: getattr(loader, name) for name in (
        "timeout", "prefetch_factor", "persistent_workers", "in_order", "multiprocessing_context",
        "worker_init_fn", "worker_type")}  # fmt: skip
    return batches, settings, loader.generator and loader.generator.get_state().tolist()


def drawn(sampler, state=True):
    return [list(sampler) for _ in range(2)], rl.get_rng_state().tolist() if state else None


def split(**arguments):
    rl.manual_seed(0)
    parts = data.random_split(range(9), **{"lengths": [4, 5], **arguments})
    return [list(part) for part in parts]


def saved(**arguments):
    file = io.BytesIO()
    rl.save({"x": rl.ones(2), "text": "a"}, file, **arguments)
    return file.getvalue()


class OtherPickle(types.ModuleType):
    """pickle, but for what it makes of the texts it writes and reads."""

    def __init__(self):
        super().__init__("other_pickle")
        self.__dict__.update({k: v for k, v in vars(pickle).items() if not k.startswith("__")})

    class Pickler(pickle._Pickler):
        def save_str(self, value):
            pickle._Pickler.save_str(self, value.upper() if value == "a" else value)

        dispatch = {**pickle._Pickler.dispatch, str: save_str}

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            raise RuntimeError("another pickle")


FILE = saved()
ARCHIVE = None  # the path of a file with the same, for what maps files


def read(f=None, **arguments):
    value = rl.load(ARCHIVE if f is None else f, **arguments)
    x = value["x"]
    return x.tolist() if x.device.type != "meta" else "meta", value["text"], x.is_shared()


def read_module(**arguments):
    """A file of more than tensors: its class, where the file is trusted."""
    stream = io.BytesIO()
    rl.save(rl.nn.Linear(1, 1), stream)
    stream.seek(0)
    try:
        return type(rl.load(stream, **arguments)).__name__
    except pickle.UnpicklingError:
        return "refused"


def work():
    x = rl.ones(4, 4, requires_grad=True)
    model = rl.nn.Linear(4, 4)
    with profiler.record_function("part", "words"):
        model(x).sum().backward()


def told(prof, path="trace.json"):
    """What a profile shows: all but its times."""
    file = DIRECTORY / path
    events = [(e.name, e.input_shapes, e.cpu_memory_usage != 0, bool(e.stack), e.flops,
               e.is_python_function) for e in prof.events()]  # fmt: skip
    if prof.recording is not None:
        prof.export_chrome_trace(file)
        trace = json.loads(file.read_text())
        events.append(sorted(set(trace) - {"baseTimeNanoseconds"}))
        events.append(trace.get("trace_id") == "mine")
    return events


def watched(profile, steps=1, **arguments):
    seen = []
    if "on_trace_ready" in arguments:
        arguments["on_trace_ready"] = lambda prof: seen.append(told(prof))
    with profile(**arguments) as prof:
        for _ in range(steps):
            work()
            if hasattr(prof, "step"):
                prof.step()
    return told(prof), seen


def planned(**arguments):
    plan = profiler.schedule(**{"wait": 1, "warmup": 1, "active": 1, **arguments})
    return [plan(step) for step in range(12)]


def marked(**arguments):
    with profiler.profile(record_shapes=True) as prof:
        with profiler.record_function(**{"name": "part", **arguments}):
            rl.ones(2)
    return [(e.name, e.concrete_inputs) for e in prof.events()]


def elsewhere(**arguments):
    with profiler.profile() as prof:
        profiler.record_external(**{"name": "copy", "start": 10**18, "end": 10**18 + 5000,
                                    **arguments})  # fmt: skip
    return [(e.name, e.device_index, e.device_resource_id, e.device_type) for e in prof.events()]


def recorded():
    with profiler.profile(record_shapes=True, with_stack=True, with_flops=True,
                          profile_memory=True) as prof:  # fmt: skip
        for n in (2, 300):
            x = rl.ones(n, n)
            with profiler.record_function("part"):
                x @ x
        x * 2
    return prof


def table(**arguments):
    events = RECORDED.events()
    text = events.table(**arguments)
    return text


def averages(**arguments):
    return [(e.key, e.count, e.input_shapes, e.stack)
            for e in RECORDED.events().key_averages(**arguments)]  # fmt: skip


def stacks(**arguments):
    path = DIRECTORY / "stacks.txt"
    RECORDED.events().export_stacks(path, **arguments)
    return path.read_text()


def timeline(path="memory.json", **arguments):
    file = DIRECTORY / path
    RECORDED.export_memory_timeline(file, **arguments)
    return file.read_bytes()


def traced(dir_name="traces", **arguments):
    folder = DIRECTORY / str(random.random())
    profiler.tensorboard_trace_handler(str(folder), **arguments)(RECORDED)
    (file,) = folder.iterdir()
    return file.name.split(".")[0], file.suffix


def ranges(context, **arguments):
    try:
        with context(**arguments):
            return "entered"
    except (RuntimeError, NotImplementedError) as error:
        return str(error)


def loaders(kind):
    return [
        lambda **a: loaded(kind, **a),
        lambda **a: loaded(kind, **{"batch_size": 2, "shuffle": True, **a}),
        lambda **a: loaded(kind, **{
            "num_workers": 2, "worker_type": "thread", "batch_size": 2, **a}),
    ]  # fmt: skip


def skipped(**arguments):
    with rl.serialization.skip_data(**arguments):
        return saved()


def is_new(**arguments):
    module = types.SimpleNamespace(__name__="module", __version__="new")
    try:
        return rl.serialization.check_module_version_greater_or_equal(module, (1,), **arguments)
    except RuntimeError:
        return "malformed"


CASES = {
    "utils.data.DataLoader": loaders(data.DataLoader),
    "utils.data.StatefulDataLoader": loaders(data.StatefulDataLoader),
    "serialization.skip_data": [skipped],
    "serialization.check_module_version_greater_or_equal": [is_new],
    "utils.data.random_split": [split],
    "utils.data.RandomSampler": [
        lambda **a: drawn(data.RandomSampler(range(5), **a)),
        lambda **a: drawn(data.RandomSampler(range(5), **{"replacement": True, **a})),
    ],
    "utils.data.SubsetRandomSampler": [
        lambda **a: drawn(data.SubsetRandomSampler(range(5), **a))],
    "utils.data.WeightedRandomSampler": [
        lambda **a: drawn(data.WeightedRandomSampler([0.1, 0.5, 0.4], 3, **a))],
    "utils.data.distributed.DistributedSampler": [
        lambda **a: drawn(data.DistributedSampler(
            range(7), **{"num_replicas": 2, "rank": 0, **a}))],
    "save": [saved],
    "load": [read, lambda **a: read(io.BytesIO(FILE), **a), read_module],
    "profiler.profile": [
        lambda **a: watched(profiler.profile, 5, **a),
        lambda **a: watched(profiler.profile, 5, **{
            "schedule": profiler.schedule(wait=0, warmup=1, active=1), **a}),
    ],
    "autograd.profiler.profile": [lambda **a: watched(older.profile, **a)],
    "profiler.schedule": [planned],
    "profiler.record_function": [marked],
    "profiler.record_external": [elsewhere, lambda **a: elsewhere(**{"device": 0, **a})],
    "profiler.tensorboard_trace_handler": [traced],
    "profiler.EventList.table": [table],
    "profiler.EventList.key_averages": [averages],
    "profiler.EventList.export_stacks": [stacks],
    "profiler.profile.export_memory_timeline": [timeline],
    "autograd.profiler.emit_nvtx": [lambda **a: ranges(older.emit_nvtx, **a)],
    "autograd.profiler.emit_itt": [lambda **a: ranges(older.emit_itt, **a)],
}  # fmt: skip


# Tested where they are, by name of the namespace.
ELSEWHERE = {
    "serialization": {f"serialization.{name}"
                      for name in ("CheckpointReader", "storage_of")},
}  # fmt: skip


def generator():
    return rl.Generator().manual_seed(7)


# Other values of an argument than those by the type of its default.
NAMED = {
    "batch_size": [None, 3], "shuffle": [True, False], "sampler": [[3, 1]],
    "batch_sampler": [[[0, 1], [2]]], "collate_fn": [lambda samples: rl.stack(samples).sum(0)],
    "timeout": [-1, 5], "worker_init_fn": [lambda number: None],
    "multiprocessing_context": ["spawn"], "prefetch_factor": [3],
    "pin_memory_device": ["cuda"], "worker_type": ["thread", "other"], "num_samples": [3],
    "num_replicas": [3], "rank": [1], "seed": [5],
    "pickle_module": [OtherPickle()], "pickle_protocol": [4], "map_location": ["meta"],
    "weights_only": [False], "mmap": [True],
    "activities": [[], [profiler.ProfilerActivity.CUDA]],
    "schedule": [lambda step: list(profiler.ProfilerAction)[min(step, 3)]],
    "on_trace_ready": [True], "custom_trace_id_callback": [lambda: "mine"],
    "acc_events": [True], "use_device": ["cuda"], "use_cuda": [True],
    "activity_filters": [{1: {"a"}}],
    "experimental_config": [object()], "execution_trace_observer": [object()],
    "post_processing_timeout_s": [1.0], "args": ["words"], "device": [0, "cuda"], "stream": [3],
    "worker_name": ["worker"], "sort_by": ["self_cpu_time_total", "cpu_memory_usage"],
    "row_limit": [1],
    "max_src_column_width": [12], "max_name_column_width": [6], "max_shapes_column_width": [5],
    "header": ["HEAD"], "time_unit": ["s"], "group_by_stack_n": [5],
    "metric": ["self_cuda_time_total"],
}  # fmt: skip


def others(name, default):
    if name == "generator":
        return [generator()]
    if name in NAMED:
        return NAMED[name]
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, (int, float)):
        return [default + 1, default + 2]
    raise LookupError(f"no other value of {name} is known")


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setattr(_ignored, "_warned", set())  # what has been warned of before
    global ARCHIVE, DIRECTORY, RECORDED
    DIRECTORY, ARCHIVE = tmp_path, tmp_path / "archive.pt"
    ARCHIVE.write_bytes(FILE)
    RECORDED = recorded()
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    RECORDED = None
    gc.collect()


def found(name):
    value = rl
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.keeps_tensors("loaders keep their last batch until they are collected")
@pytest.mark.parametrize("name", CASES)
def test_arguments(name):
    parameters = inspect.signature(found(name)).parameters.values()
    left = [p for p in parameters if p.default is not p.empty and not p.name.startswith("_")]
    for call in CASES[name]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            usual = call()

        def with_another(name, call=call):
            def run(value):
                _ignored._warned.clear()
                return call(**{name: value})

            return run

        left = [
            p for p in left
            if not some_has_effect(with_another(p.name), usual, others(p.name, p.default))
        ]  # fmt: skip
    assert {p.name for p in left} == set(NO_EFFECT.get(name, {}))


def with_options(space):
    """The public functions and classes of a namespace that have optional arguments, by name."""
    module = importlib.import_module(f"rushlight.{space}".rstrip("."))
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name, None)  # a module may need a library that is absent
        if name.startswith("_") or not callable(value) or isinstance(value, enum.EnumMeta):
            continue
        try:
            parameters = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):
            continue
        if any(p.default is not p.empty for p in parameters):
            yield f"{space}.{name}", value


# What is only made by others, and records of what has been seen.
MADE = "FunctionEvent FunctionEventAvg EventList".split()


@pytest.mark.parametrize("space", ["profiler", "autograd.profiler", "utils.data", "serialization"])
def test_each_is_called(space):
    known = [found(name) for name in CASES]
    left = {name for name, value in with_options(space)
            if value not in known and name.rpartition(".")[2] not in MADE}  # fmt: skip
    assert left == ELSEWHERE.get(space, set())
