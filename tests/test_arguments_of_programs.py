"""Every argument of what traces, exports, measures and configures programs and of data pipes does
something: with another value than its default something changes, or it raises an error or a
warning. What does not is listed with its reason, and the list is no longer than it must be.
"""

import dataclasses
import datetime
import functools
import gc
import io
import math
import os
import tempfile
from unittest import mock

import pytest
from options import found, ignored, in_python

import rushlight as rl
from rushlight import _ignored, backends, export, fx, jit, library, nn
from rushlight.fx.experimental import proxy_tensor
from rushlight.utils import benchmark
from rushlight.utils.data import datapipes

ONE_DEVICE = "the CPU is one device, whose operations have run when their calls return"
NO_EFFECT = {
    "cpu.Stream": {"priority": ONE_DEVICE},
    "cpu.current_stream": {"device": ONE_DEVICE},
    "cpu.synchronize": {"device": ONE_DEVICE},
}


def f(x):
    return x.sin() + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        rl.manual_seed(0)
        self.fc = nn.Linear(3, 3)
        self.dropout = nn.Dropout(0.9)
        self.register_buffer("count", rl.zeros(1))

    def forward(self, x, scale=1.0):
        return self.dropout(self.fc(x)) * scale

    def twice(self, x):
        return self.fc(x) * 2


X = rl.ones(2, 3)


def error_of(call):
    """What a call gives, or the beginning of its error."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"


# ---- rushlight.jit


def traced(**named):
    made = jit.trace(**{"func": f, "example_inputs": (X,), **named})
    return made(X), str(made.graph)


def drifting():
    """A function that adds a little more at each call."""
    calls = []

    def function(x):
        calls.append(1)
        return x + 1e-3 * len(calls)

    return function


def traced_twice(**named):
    return error_of(lambda: jit.trace(drifting(), (X,), **named)(X))


def traced_and_compared(**named):
    more = {"check_trace": False, "check_inputs": [(X,)], **named}
    return error_of(lambda: jit.trace(drifting(), (X,), **more)(X))


def traced_of_dicts(**named):
    return error_of(lambda: sorted(jit.trace(lambda x: {"a": x}, (X,), **named)(X)))


def traced_by_name(**named):
    given = {} if "example_kwarg_inputs" in named else {"example_inputs": (X,)}
    return jit.trace(lambda x, y=1: x + y, **given, **named)(X)


def traced_module(**named):
    inputs = {"forward": {"x": X} if named.get("example_inputs_is_kwarg") else (X,)}
    made = jit.trace_module(Model().eval(), inputs, **named)
    return made(X)


class Drifting(nn.Module):
    def __init__(self):
        super().__init__()
        self.function = drifting()

    def forward(self, x):
        return {"y": self.function(x)}


def traced_drifting_module(**named):
    def run():
        return jit.trace_module(Drifting(), {"forward": (X,)}, **named)(X)

    return error_of(run)


def traced_module_compared(**named):
    more = {"check_trace": False, "strict": False, "check_inputs": [{"forward": (X,)}], **named}
    return traced_drifting_module(**more)


def traced_module_loosely(**named):
    return traced_drifting_module(**{"strict": False, **named})


def scripted(**named):
    made = jit.script(**{"obj": f, **named})
    return made(X), type(made).__name__


def frozen(**named):
    made = jit.freeze(jit.script(Model().eval()), **named)
    return hasattr(made, "twice"), error_of(lambda: made(X)), hasattr(made, "count")


def frozen_batch_norm(**named):
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)).eval()
    return str(jit.freeze(jit.trace(model, (rl.ones(1, 1, 2, 2),)), **named).graph)


def optimized(**named):
    return hasattr(jit.optimize_for_inference(jit.script(Model().eval()), **named), "twice")


def loaded(**named):
    file = io.BytesIO()
    jit.save(jit.trace(Model().eval(), (X,)), file)
    file.seek(0)
    made = jit.load(file, **named)
    return sorted(str(t.device) for t in made.state_dict().values())


def ignoring(**named):
    class Half(nn.Module):
        @jit.ignore(**named)
        def host(self, x):
            return x + 1

        def forward(self, x):
            return x * 2

    return error_of(lambda: Half().host(X))


# ---- rushlight.fx and export


def targets(graph):
    return [(node.op, str(node.target), str(node.kwargs)) for node in graph.nodes]


def symbolic(**named):
    def program(x, flag=False):
        return x + 1 if flag else x * 2

    return error_of(lambda: targets(fx.symbolic_trace(program, **named).graph))


def proxied(**named):
    def on_values(x):
        return x.sin() if float(x.sum()) > 0 else x.cos()

    made = error_of(lambda: targets(proxy_tensor.make_fx(on_values, **named)(X).graph))
    plain = proxy_tensor.make_fx(f, **named)(X)
    notes = [sorted(set(node.meta) - {"val", "tensor_meta"}) for node in plain.graph.nodes]
    return targets(plain.graph), made, notes


def proxied_module(**named):
    made = proxy_tensor.make_fx(nn.Linear(3, 3), **named)(X)
    return targets(made.graph), [sorted(n.meta) for n in made.graph.nodes], \
        sorted(made.state_dict())  # fmt: skip


def isolated(**named):
    return targets(proxy_tensor.get_isolated_graphmodule(f, (X,), {}, **named).graph)


class Scale(nn.Module):
    """What a tracer may take as a step of the program, or look into, or not know."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rl.ones(2))

    def forward(self, x):
        return helper(x) * math.floor(x) * self.weight.shape[0]


def traced_by(**named):
    return error_of(lambda: targets(fx.Tracer(**named).trace(Scale())))


def helper(x):
    return x + 1


def rewritten(**named):
    module = fx.symbolic_trace(lambda x: x.sin().cos() + 2)
    given = {"replacement": None, **named}
    done = error_of(lambda: fx.subgraph_rewriter.replace_pattern_with_filters(
        module, lambda x: x.sin().cos(), **given))  # fmt: skip
    return targets(module.graph), len(done)


def rewritten_usually(**named):
    module = fx.symbolic_trace(lambda x: rl.add(x, 2))
    fx.subgraph_rewriter.replace_pattern_with_filters(
        module, lambda x: rl.add(x, 3), lambda x: rl.mul(x, 3), **named)  # fmt: skip
    return targets(module.graph)


def interpreted(**named):
    module = fx.symbolic_trace(f)
    interpreter = fx.Interpreter(module, **named)
    result = interpreter.run(X)
    return result, len(interpreter.env)


def exported(call):
    def run(**named):
        program = call(Model().eval(), (X,), **named)
        kept = [entry.signature is not None for entry in program.module_call_graph]
        return targets(program.graph), str(program.range_constraints), kept

    return run


def with_submodules(**named):
    return error_of(lambda: export.export(Model().eval(), (X,), **named).module()(X))


def saved(**named):
    file = io.BytesIO()
    export.save(export.export(Model().eval(), (X,)), file, **named)
    return file.getvalue()


def read_program(**named):
    file = io.BytesIO()
    program = export.export(Model().eval(), (X,))
    export.save(program, file, extra_files={"note": b"words"})
    file.seek(0)
    loaded = export.load(file, **named)
    return targets(loaded.graph), named.get("extra_files")


def dim(make):
    def run(**named):
        made = make("n", **named)
        return [(d.min, d.max) for d in (made if isinstance(made, tuple) else [made])]

    return run


def of_a_program(**named):
    program = export.export(Model().eval(), (X,))
    arguments = (
        program.graph_module,
        program.graph_signature,
        program.state_dict,
        program.constants,
        *(getattr(program, n) for n in ("in_spec", "out_spec", "input_guards")),
        program.range_constraints,
    )
    return export.ExportedProgram(*arguments, **named).example_inputs


# ---- rushlight.library


def namespace(**named):
    lib = library.Library("see", "FRAGMENT", **named)
    return lib.dispatch_key if hasattr(lib, "dispatch_key") else None


# ---- rushlight.utils.benchmark


def task(**named):
    made = benchmark.TaskSpec("x + 1", "x = 1", **named)
    return made.title, dataclasses.astuple(made)


def timed(**named):
    seen = []
    clock = iter(range(10**6))
    given = {"stmt": "seen.append(x)", "globals": {"seen": seen, "x": 1},
             "timer": lambda: next(clock), **named}  # fmt: skip
    measured = benchmark.Timer(**given).timeit(2)
    spec = measured.task_spec
    texts = spec.label, spec.sub_label, spec.description, spec.env, spec.stmt, spec.setup
    return seen[:1], measured.title, texts, spec.num_threads, measured.raw_times


def in_setup(**named):
    seen = []
    benchmark.Timer("pass", globals={"seen": seen}, **named).timeit(1)
    return seen


def measurement(**named):
    task_spec = benchmark.TaskSpec("pass", "pass")
    return benchmark.Measurement(1, [1.0], task_spec, **named).metadata


# ---- data pipes


ITER, MAP = datapipes.iter, datapipes.map


def numbers(count=6):
    return ITER.IterableWrapper(range(count))


def listed(pipe):
    return error_of(lambda: [list(part) if isinstance(part, (list, tuple)) else part
                             for part in pipe])  # fmt: skip


@functools.cache
def folder():
    """A folder with a folder in it, and a file in each, for as long as the tests run."""
    made = tempfile.TemporaryDirectory()
    inside = os.path.join(made.name, "inside")
    os.mkdir(inside)
    for name, text in (("a.txt", "é"), ("b.csv", "1,2"), ("inside/c.txt", "third")):
        with open(os.path.join(made.name, name), "w", encoding="utf-8") as file:
            file.write(text)
    return made


def listing(**named):
    pipe = ITER.FileLister(**{"root": os.path.relpath(folder().name), **named})
    with mock.patch("os.walk", backwards_walk):
        return list(pipe), error_of(lambda: len(pipe))


def backwards_walk(*args, walk=os.walk, **named):
    for root, inside, names in walk(*args, **named):
        names.sort(reverse=True)
        yield root, inside, names


def opened(**named):
    def read():
        pipe = ITER.FileOpener([os.path.join(folder().name, "a.txt")], **named)
        return [file.read() for _, file in pipe], error_of(lambda: len(pipe))

    return error_of(read)


def read(**named):
    source = ITER.FileOpener([os.path.join(folder().name, "b.csv")])
    return [part for _, part in ITER.StreamReader(source, **named)]


def batches(kind, source):
    def run(**named):
        made = kind(source(), 4, **named)
        parts = list(made) if kind is ITER.Batcher else [made[i] for i in range(len(made))]
        return [(type(part).__name__, list(part)) for part in parts]

    return run


class OwnChunk(list):
    pass


def demultiplexed(order, classify, count=6):
    def run(**named):
        parts = ITER.Demultiplexer(numbers(count), 2, classify, **named)
        return [listed(parts[i]) for i in order]

    return run


def forked(**named):
    first, second = ITER.Forker(ITER.IterableWrapper([[1], [2], [3]]), 2, **named)

    def both():
        a, b = list(first), list(second)
        return [x is y for x, y in zip(a, b)]

    return error_of(both)


def grouped(**named):
    source = ITER.IterableWrapper(["a1", "b1", "a2", "a3", "b2", "c1"])
    return listed(ITER.Grouper(source, group_key_fn=lambda text: text[0], **named))


def wrapped(kind):
    def run(**named):
        data = [[1], [2]]
        pipe = kind(data, **named)
        (next(iter(pipe)) if kind is ITER.IterableWrapper else pipe[0]).append(9)
        return data

    return run


def pairs():
    return ITER.IterableWrapper([(1, 2), (3, 4)])


def sampled(**named):
    return listed(ITER.Sampler(numbers(), **named))


def sharded(**named):
    pipe = ITER.ShardingFilter(numbers(), **named)
    pipe.apply_sharding(2, 0, sharding_group="ours")
    return listed(pipe)


def shuffled(**named):
    rl.manual_seed(0)
    source = ITER.IterableWrapper([[1, 2], [3, 4], [5, 6], [7, 8]])
    return listed(ITER.Shuffler(source, **named))


def unbatched(**named):
    return listed(ITER.UnBatcher(ITER.IterableWrapper([[[1], [2]], [[3]]]), **named))


def shuffled_map(**named):
    rl.manual_seed(0)
    return listed(MAP.Shuffler(MAP.SequenceWrapper(range(6)), **named))


# ---- switches


def switched(space):
    module = getattr(backends, space)

    def run(**named):
        with module.flags(**named):
            return [str(getattr(module, name, None)) for name in (
                "enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32",
                "strategy")]  # fmt: skip

    return run


def attention_switches(**named):
    with backends.cuda.sdp_kernel(**named):
        return [getattr(backends.cuda, f"{name}_sdp_enabled")()
                for name in ("flash", "math", "mem_efficient", "cudnn")]  # fmt: skip


def can_use(name):
    def run(**named):
        q = rl.ones(1, 1, 2, 4)
        params = backends.cuda.SDPAParams(q, q, q, None, 0.0, False, False)
        return getattr(backends.cuda, name)(params, **named)

    return run


def sobol(**named):
    return rl.quasirandom.SobolEngine(2, **named).draw(3)


def scrambled(**named):
    return sobol(**{"scramble": True, "seed": 3, **named})


def stat(**named):
    events = []
    handle = rl.monitor.register_event_handler(lambda event: events.append(event.data))
    try:
        made = rl.monitor.Stat("s", [rl.monitor.Aggregation.COUNT],
                               datetime.timedelta(hours=1), **named)  # fmt: skip
        for _ in range(4):
            made.add(1.0)
        return made.count, len(events)
    finally:
        rl.monitor.unregister_event_handler(handle)


CASES = {
    "jit.trace": [
        traced, traced_twice, traced_and_compared, traced_of_dicts, traced_by_name],
    "jit.trace_module": [
        traced_module, traced_drifting_module, traced_module_compared, traced_module_loosely],
    "jit.script": [scripted], "jit.freeze": [frozen, frozen_batch_norm],
    "jit.optimize_for_inference": [optimized], "jit.load": [loaded], "jit.ignore": [ignoring],
    "fx.symbolic_trace": [symbolic], "fx.Tracer": [traced_by], "fx.Interpreter": [interpreted],
    "fx.experimental.proxy_tensor.make_fx": [proxied, proxied_module],
    "fx.experimental.proxy_tensor.get_isolated_graphmodule": [isolated],
    "fx.subgraph_rewriter.replace_pattern_with_filters": [rewritten, rewritten_usually],
    "export.export": [exported(export.export), with_submodules],
    "export.export_for_training": [exported(export.export_for_training)],
    "export.save": [saved], "export.load": [read_program],
    "export.Dim": [dim(export.Dim)], "export.dims": [dim(export.dims)],
    "export.ExportedProgram": [of_a_program],
    "utils.benchmark.TaskSpec": [task], "utils.benchmark.Timer": [timed, in_setup],
    "utils.benchmark.Measurement": [measurement],
    "utils.data.datapipes.iter.Batcher": [batches(ITER.Batcher, numbers)],
    "utils.data.datapipes.map.Batcher": [
        batches(MAP.Batcher, lambda: MAP.SequenceWrapper(range(6)))],
    "utils.data.datapipes.iter.Collator": [
        lambda **named: [repr(x) for x in ITER.Collator(pairs(), **named)]],
    "utils.data.datapipes.iter.Demultiplexer": [
        demultiplexed((0, 1), lambda n: n % 2),
        demultiplexed((0, 1), lambda n: None if n == 3 else n % 2)],
    "utils.data.datapipes.iter.FileLister": [listing],
    "utils.data.datapipes.iter.FileOpener": [opened],
    "utils.data.datapipes.iter.StreamReader": [read],
    "utils.data.datapipes.iter.Filter": [
        lambda **named: listed(ITER.Filter(pairs(), lambda x: x != 1, **named))],
    "utils.data.datapipes.iter.Forker": [forked],
    "utils.data.datapipes.iter.Grouper": [
        grouped, lambda **named: grouped(**{"group_size": 3, "buffer_size": 3, **named})],
    "utils.data.datapipes.iter.IterableWrapper": [wrapped(ITER.IterableWrapper)],
    "utils.data.datapipes.map.SequenceWrapper": [wrapped(MAP.SequenceWrapper)],
    "utils.data.datapipes.iter.Mapper": [
        lambda **named: listed(ITER.Mapper(pairs(), lambda x: x * 2, **named)),
        lambda **named: listed(ITER.Mapper(pairs(), lambda x: x * 2,
                                           **{"input_col": 0, **named}))],
    "utils.data.datapipes.map.Mapper": [
        lambda **named: listed(MAP.Mapper(MAP.SequenceWrapper(range(3)), **named))],
    "utils.data.datapipes.iter.Sampler": [
        sampled, lambda **named: sampled(**{"sampler": rl.utils.data.RandomSampler, **named})],
    "utils.data.datapipes.iter.ShardingFilter": [sharded],
    "utils.data.datapipes.iter.Shuffler": [shuffled],
    "utils.data.datapipes.iter.UnBatcher": [unbatched],
    "utils.data.datapipes.map.Shuffler": [shuffled_map],
    **{f"backends.{space}.flags": [switched(space)]
       for space in ("cudnn", "mkldnn", "opt_einsum")},
    "backends.nnpack.flags": [lambda **named: backends.nnpack.flags(**named).__enter__()],
    "backends.cuda.sdp_kernel": [attention_switches],
    **{f"backends.cuda.{name}": [can_use(name)] for name in (
        "can_use_cudnn_attention", "can_use_efficient_attention", "can_use_flash_attention")},
    **{f"backends.cuda.{name}": [lambda name=name, **named: getattr(backends.cuda, name)(**named)]
       for name in ("preferred_blas_library", "preferred_linalg_library")},
    "quasirandom.SobolEngine": [sobol, scrambled], "monitor.Stat": [stat],
    "cpu.Stream": [lambda **named: [str(type(rl.cpu.Stream(**named)))]],
    "cpu.current_stream": [lambda **named: str(type(rl.cpu.current_stream(**named)))],
    "cpu.synchronize": [lambda **named: rl.cpu.synchronize(**named)],
}  # fmt: skip

# Other values of an argument than those of booleans and numbers.
VALUES = {
    "root": ["."], "masks": ["*.txt"], "mode": ["b"], "encoding": ["latin-1"], "chunk": [1],
    "optimize": [True], "check_inputs": [[(X,), (X * 2,)], [{"forward": (X,)}]],
    "example_inputs": [[(X,)]],
    "example_kwarg_inputs": [{"x": X, "y": 3}], "obj": [3], "preserved_attrs": [["count"]],
    "other_methods": [["twice"]], "map_location": ["meta"], "concrete_args": [{"flag": True}],
    "decomposition_table": [{rl.ops.aten.sin.default: lambda x: x.cos()}],
    "tracing_mode": ["fake", "symbolic"], "autowrap_modules": [()],
    "autowrap_functions": [(helper,)], "graph": [fx.symbolic_trace(lambda x: x.cos()).graph],
    "replacement": [lambda x: x.exp()], "match_filters": [[lambda *a: False]],
    "replacement_callback": [lambda *a: fx.symbolic_trace(lambda x: x.exp()).graph],
    "kwargs": [{"scale": 3.0}], "dynamic_shapes": [{"x": {0: export.Dim("n")}}],
    "preserve_module_call_signature": [("fc",)], "extra_files": [{"note": ""}],
    "opset_version": [{"aten": 10}], "pickle_protocol": [4], "expected_opset_version": [{"a": 1}],
    "min": [3], "max": [9], "example_inputs_is_kwarg": [True],
    "global_setup": ["int y;"], "label": ["LABEL"], "sub_label": ["SUB"], "description": ["D"],
    "env": ["E"], "num_threads": [2], "stmt": ["pass"], "setup": ["seen.append(7)"],
    "timer": [lambda: 0.0], "globals": [{"seen": [5], "x": 2}],
    "language": [benchmark.Language.CPP], "metadata": [{"a": 1}],
    "wrapper_class": [OwnChunk], "conversion": [lambda x: x], "collate_fn": [lambda x: x],
    "buffer_size": [1, 2], "input_col": [0], "output_col": [1], "copy": ["shallow", "deep"],
    "group_size": [2], "guaranteed_group_size": [2],
    "sampler": [rl.utils.data.RandomSampler], "sampler_args": [(3,)],
    "sampler_kwargs": [{"replacement": True}],
    "sharding_group_filter": ["theirs"],
    "unbatch_level": [1, 2, -1], "fn": [lambda x: x + 5], "indices": [list("abcdef")],
    "enabled": [False, True], "benchmark": [True], "benchmark_limit": [3],
    "deterministic": [True], "allow_tf32": [False, True], "strategy": ["greedy"],
    "backend": ["cublaslt", "magma"], "seed": [9], "max_samples": [2], "device": ["cpu"],
}  # fmt: skip
BY_FUNCTION = {
    "jit.trace": {"example_inputs": [(X * 2, X)]},
    "jit.script": {"example_inputs": [[(X,)]]},
    "export.ExportedProgram": {"example_inputs": [((X,), {})]},
}

SPACES = ("jit fx fx.experimental.proxy_tensor fx.subgraph_rewriter export utils.benchmark "
          "utils.data.datapipes.iter utils.data.datapipes.map backends.cuda backends.cudnn "
          "backends.mkldnn backends.nnpack backends.opt_einsum quasirandom monitor "
          "cpu").split()  # fmt: skip
# What is made by others or holds what it is given, and arguments that begin with an underscore.
ELSEWHERE = {
    "jit.Future", "jit.ScriptFunction", "jit.save", "fx.Graph", "fx.Node", "fx.Proxy",
    "fx.experimental.proxy_tensor.ProxyTorchDispatchMode", "export.ConstantArgument",
    "export.ExportGraphSignature", "export.InputSpec", "export.OutputSpec",
    "export.register_dataclass", "backends.opt_einsum.set_flags", "export.CustomObjArgument",
    "export.ModuleCallEntry", "export.ModuleCallSignature", "export.draft_export",
    "export.unflatten", "fx.experimental.proxy_tensor.DecompositionInterpreter",
    "utils.benchmark.FuzzedParameter", "utils.benchmark.FuzzedTensor", "utils.benchmark.Fuzzer",
    "fx.experimental.proxy_tensor.dispatch_trace",
}  # fmt: skip


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(_ignored, "_warned", set())
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    gc.collect()


@pytest.mark.keeps_tensors("programs hold examples until they are collected")
@pytest.mark.parametrize("name", CASES)
def test_arguments(name):
    left = ignored(found(name), CASES[name], {**VALUES, **BY_FUNCTION.get(name, {})})
    assert set(left) == set(NO_EFFECT.get(name, {}))


@pytest.mark.parametrize("space", SPACES)
def test_each_is_called(space):
    known = [found(name) for name in [*CASES, *ELSEWHERE]]
    assert not {name for name, value in in_python(space).items() if value not in known}
