"""Programs that use profiles, beside torch: what they give, raise and warn of."""

import importlib
import json
import warnings

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.torch

# T: the library, P: autograd.profiler, L: autograd.profiler_legacy, N: profiler, path: a folder
PROGRAMS = {
    "table before": "result = P.profile().table()",
    "str before": "result = str(P.profile())[:11]",
    "repr before": "result = repr(P.profile())[:11]",
    "averages before": "P.profile().key_averages()",
    "sum before": "P.profile().total_average()",
    "time before": "P.profile().self_cpu_time_total",
    "events before": "P.profile().function_events",
    "stacks before": "P.profile(with_stack=True).export_stacks(path / 'x')",
    "not enabled": "with P.profile(enabled=False): pass",
    "again": "p = P.profile()\nwith p: pass\nwith p: pass",
    "no processor": "P.profile(use_cpu=False)",
    "no processor, kineto": "P.profile(use_cpu=False, use_kineto=True, use_device='cuda')",
    "unknown device": "result = P.profile(use_device='bogus').use_device",
    "absent device": "result = P.profile(use_device='cuda').use_device",
    "absent, in an older way": "result = P.profile(use_cuda=True).use_cuda",
    "another absent device": "result = P.profile(use_device='xpu').use_device",
    "a device of nobody": "P.profile(use_device='mtia')",
    "no time at all": "P.profile(post_processing_timeout_s=-1)",
    "stacks that were not recorded": "with P.profile() as p: pass\np.export_stacks(path / 'x')",
    "stacks by nothing": """
with P.profile(with_stack=True) as p:
    pass
p.export_stacks("x", "bogus")
""",
    "sorted by nothing": "with P.profile() as p: T.ones(3).exp()\np.table(sort_by='bogus')",
    "attributes": """
p = P.profile(with_flops=True)
result = (p.record_shapes, p.with_flops, p.with_stack, p.profile_memory, p.entered, p.enabled)
""",
    "an error inside": """
try:
    with P.profile() as p:
        T.ones(2).exp()
        raise KeyError(1)
except KeyError:
    pass
result = names(p)
""",
    "switched off for a while": """
CPU = [N.ProfilerActivity.CPU]
with N.profile(activities=CPU) as p:
    T.ones(2).exp()
    p.toggle_collection_dynamic(False, CPU)
    T.ones(2).log()
    p.toggle_collection_dynamic(True, CPU)
    T.ones(2).exp()
result = names(p)
""",
    "switched off before": "N.profile().toggle_collection_dynamic(False, [])",
    "legacy table before": "L.profile().table()",
    "legacy averages before": "L.profile().key_averages()",
    "legacy sum before": "L.profile().total_average()",
    "legacy time before": "L.profile().self_cpu_time_total",
    "legacy trace before": "L.profile().export_chrome_trace(path / 'x')",
    "legacy str before": "result = str(L.profile())[:11]",
    "legacy events before": "result = L.profile().function_events",
    "legacy, not enabled": "with L.profile(enabled=False): pass",
    "legacy, absent device": "result = L.profile(use_cuda=True).use_cuda",
    "legacy, again": "p = L.profile()\nwith p: pass\nwith p: pass",
    "legacy names": """
with L.profile() as p:
    T.ones(3).exp()
result = [(e.name, e.is_legacy, e.scope) for e in p.function_events if e.name == "aten::exp"]
""",
    "legacy stacks": "with L.profile() as p: pass\np.export_stacks(path / 'x')",
    "legacy sums": """
with L.profile(record_shapes=True) as p:
    T.ones(3).exp()
counts = [(e.count, e.input_shapes) for e in p.key_averages(True, 0) if e.key == "aten::exp"]
result = (p.total_average().key, p.self_cpu_time_total > 0, counts)
""",
    "legacy trace": "with L.profile() as p: T.ones(3)\np.export_chrome_trace(str(path / 'x'))",
    "new: events before": "N.profile().events()",
    "new: averages before": "N.profile().key_averages()",
    "new: trace before": "N.profile().export_chrome_trace(str(path / 'x'))",
    "new: stacks before": "N.profile(with_stack=True).export_stacks(str(path / 'x'))",
    "new: stopped first": "N.profile().stop()",
    "new: stopped twice": "p = N.profile()\np.start()\np.stop()\np.stop()",
    "new: begun again": """
p = N.profile()
p.start()
T.ones(2).exp()
p.stop()
p.start()
T.ones(2).log()
p.stop()
result = names(p)
""",
    "new: step without schedule": """
with N.profile() as p:
    T.ones(2).exp()
    p.step()
    T.ones(2).log()
result = names(p)
""",
    "new: left in mid-cycle": """
with N.profile(schedule=N.schedule(wait=1, warmup=1, active=2)) as p:
    for _ in range(3):
        T.ones(2).exp()
        p.step()
result = names(p)
""",
    "new: without schedule, by its older name": """
p = N._KinetoProfile()
p.start()
T.ones(2).exp()
p.stop()
result = names(p)
""",
    "new: trace by hand": "N.profile().start_trace()",
    "new: metadata": """
with N.profile() as p:
    p.add_metadata("a", "b")
    p.add_metadata_json("c", "[1]")
p.export_chrome_trace(str(path / "x.json"))
found = json.loads((path / "x.json").read_text())
result = (found["a"], found["c"])
""",
    "new: metadata given before": """
p = N.profile()
p.preset_metadata_json("z", "[3]")
with p:
    pass
p.export_chrome_trace(str(path / "x.json"))
result = json.loads((path / "x.json").read_text())["z"]
""",
    "new: name of a trace": """
p = N.profile()
before = p.get_trace_id()
with p:
    pass
result = (before, len(p.get_trace_id()))
""",
    "new: name of one's own": """
p = N.profile()
p.set_custom_trace_id_callback(lambda: "q")
with p:
    pass
result = p.get_trace_id()
""",
    "new: nothing to watch": "N.profile(activities=[])",
    "new: no activity": "N.profile(activities=['CPU'])",
    "new: an activity twice": "N.profile(activities=[N.ProfilerActivity.CPU] * 2)",
    "new: folder of traces": """
with N.profile(on_trace_ready=N.tensorboard_trace_handler(str(path / "tb"), "me", True)):
    T.ones(2)
(file,) = (path / "tb").iterdir()
first, _, *rest = file.name.split(".")
result = (first, rest)
""",
    "new: a file where a folder should be": """
(path / "x").write_text("")
N.tensorboard_trace_handler(str(path / "x"))(None)
""",
    "new: shapes": """
with N.profile(record_shapes=True) as p:
    T.ones(2, 3) + T.ones(3)
result = [(e.overload_name, e.input_shapes, e.concrete_inputs) for e in p.events()
          if e.name == "aten::add"]
""",
    "a part": "r = P.record_function('a', 'b')\nresult = (r.name, r.args)",
    "a part, as a decorator": """
@P.record_function("part")
def f(x):
    return x + 1
with P.profile() as p:
    f(T.ones(2))
result = [e.name for e in p.function_events if e.is_user_annotation]
""",
    "ranges, off": "with P.emit_nvtx(enabled=False): T.ones(2)",
    "ranges, off, inside each other": """
e = P.emit_nvtx(enabled=False)
with e, e:
    pass
""",
    "other ranges, off": "with P.emit_itt(enabled=False): T.ones(2)",
    "seen twice": "u = P.EnforceUnique()\nu.see(1, 2)\nu.see(1, 2)",
    "records of memory": """
class Record:
    def __init__(self, time):
        self.time = time

    def start_ns(self):
        return self.time

found = P.MemRecordsAcc([(Record(5), 0), (Record(1), 0), (Record(9000), 0)])
result = [pair[0].time for pair in found.in_interval(1, 10)]
""",
    "steps": """
tracker = P.KinetoStepTracker
tracker.init_step_count("a")
before = tracker.current_step()
after = tracker.increment_step("a")
result = (after - before, tracker.erase_step_count("a"), tracker.erase_step_count("a"))
""",
}


def names(prof):
    events = prof.events() if hasattr(prof, "events") else prof.function_events
    return [e.name for e in events if e.name in ("aten::exp", "aten::log", "ProfilerStep*")]


def outcome(library, program, path):
    path.mkdir()
    name = library.__name__
    scope = {"T": library, "N": library.profiler, "path": path, "result": None, "json": json,
             "names": names, "P": importlib.import_module(f"{name}.autograd.profiler"),
             "L": importlib.import_module(f"{name}.autograd.profiler_legacy")}  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(program, scope)
        except Exception as error:
            return type(error).__name__, None, [w.category.__name__ for w in caught]
    return "done", scope["result"], [w.category.__name__ for w in caught]


@pytest.fixture(autouse=True)
def warned_of_nothing(monkeypatch):
    monkeypatch.setattr(rl._ignored, "_warned", set())
    yield
    if torch._C._autograd._profiler_enabled():
        torch._C._autograd._disable_profiler()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path):
    program = PROGRAMS[name]
    ours, theirs = (outcome(lib, program, tmp_path / lib.__name__) for lib in (rl, torch))
    assert ours == theirs
