"""`profiler.ExecutionTraceObserver`: the nodes that it writes, and when."""

import gzip
import json
import os

import pytest

import rushlight as rl
from rushlight.profiler import ExecutionTraceObserver, profile, record_function, schedule


def nodes(path):
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt") as file:
        return json.load(file)["nodes"]


def names(path):
    return [node["name"] for node in nodes(path)[2:]]  # after those of the process and the thread


def test_what_runs_between_start_and_stop(tmp_path):
    path = tmp_path / "trace.json"
    observer = ExecutionTraceObserver()
    assert not observer.is_registered and observer.get_output_file_path() is None
    observer.start()
    assert not observer.is_running()  # there is no file
    assert observer.register_callback(str(path)) is observer and observer.is_registered
    x = rl.ones(2, 3)
    rl.zeros(1)
    observer.start()
    assert observer.is_running()
    x.exp()
    observer.stop()
    x.sin()
    observer.start()
    x.cos()
    observer.unregister_callback()
    assert not observer.is_running() and not observer.is_registered
    assert names(path) == ["aten::exp", "[pytorch|profiler|execution_trace|thread]", "aten::cos"]


def test_nodes_have_parents_inputs_and_outputs(tmp_path):
    path = tmp_path / "trace.json"
    observer = ExecutionTraceObserver().register_callback(path)
    x = rl.ones(2, 3, requires_grad=True)
    observer.start()
    with record_function("mine"):
        y = (x.t() * 2).sum(1)
    rl.cat([x, x], 1)
    y.sum().backward()
    observer.cleanup()
    found = nodes(path)
    by_id = {node["id"]: node for node in found}
    of = {node["name"]: node for node in reversed(found)}
    product = of["aten::mul"]
    assert by_id[product["ctrl_deps"]]["name"] == "mine"
    assert product["inputs"]["shapes"][0] == [3, 2] and product["inputs"]["strides"][0] == [1, 3]
    assert product["inputs"]["types"][0] == "Tensor(float)"
    assert product["outputs"]["values"][0][3:5] == [6, 4]  # elements, and bytes of each
    joined = of["aten::cat"]["inputs"]
    assert joined["shapes"][0] == [[2, 3], [2, 3]] and joined["values"][1] == 1
    assert joined["types"] == ["GenericList[Tensor(float),Tensor(float)]", "Int"]
    scopes = {
        name: next(a["value"] for a in of[name]["attrs"] if a["name"] == "scope")
        for name in ("mine", "aten::mul", "MulBackward0")
    }
    assert scopes == {"mine": 7, "aten::mul": 0, "MulBackward0": 1}
    assert "aten::expand" in of  # of the backward pass


def test_a_profile_starts_and_stops_it(tmp_path):
    path = tmp_path / "trace.json.gz"
    observer = ExecutionTraceObserver().register_callback(str(path))
    plan = schedule(wait=1, warmup=1, active=1, repeat=1)
    with profile(schedule=plan, execution_trace_observer=observer) as prof:
        for call in (rl.exp, rl.sin, rl.cos, rl.tan):
            call(rl.ones(1))
            prof.step()
    assert [name for name in names(path) if name in ("aten::exp", "aten::sin", "aten::cos")] == [
        "aten::cos"
    ]
    assert any(event.name == "aten::cos" for event in prof.events())


def test_it_does_not_start_beside_a_profile(tmp_path):
    observer = ExecutionTraceObserver().register_callback(tmp_path / "trace.json")
    with profile(), pytest.raises(RuntimeError, match="another profile is watching"):
        observer.start()
    observer.cleanup()


def test_observers_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "0")
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    observer = ExecutionTraceObserver.build_execution_trace_obs_from_env()
    path = observer.get_output_file_path()
    assert path.endswith(".et.json") and observer.is_registered
    assert observer.get_resources_dir(can_create=True) is None
    observer.cleanup()
    assert len(nodes(path)) == 1
    os.remove(path)
    folder = ExecutionTraceObserver.get_resources_dir_for_et_path(str(tmp_path / "a.json"), True)
    assert os.path.isdir(folder) and folder.endswith("a_resources")
    assert ExecutionTraceObserver.get_resources_dir_for_et_path(str(tmp_path / "b.json")) is None
