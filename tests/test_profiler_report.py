"""Reports, pictures and other tools: what they make of a profile."""

import ctypes
import gzip
import json
import sqlite3
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

import rushlight
from rushlight import nn
from rushlight.autograd import profiler as older
from rushlight.profiler import _memory_profiler as of_libraries, flops, profile, schedule
from rushlight.profiler.memory_timeline import CATEGORIES
from rushlight.profiler.ranges import emit_itt, emit_nvtx, load_nvprof
from rushlight.profiler.report import Limits, Report
from rushlight.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        time.sleep(0.02)
        return rushlight.ones(64)


def train(prof):
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    optimizer = rushlight.optim.Adam(model.parameters())
    for batch in DataLoader(Slow(), batch_size=2):
        optimizer.zero_grad()
        model(batch).square().sum().backward()
        optimizer.step()
        prof.step()


def test_a_report_of_training():
    with profile(schedule=schedule(wait=0, warmup=1, active=4, repeat=1)) as prof:
        train(prof)
    report = prof.report()
    assert report.steps == 4 and report.wall > 0
    assert sum(report.parts.values()) == pytest.approx(report.wall, rel=1e-3)
    waiting = report.parts["waiting for data"]
    assert waiting >= 4 * 2 * 20_000 and report.parts["kernels"] > 0 < report.parts["dispatch"]
    assert waiting <= report.covered <= report.wall * 1.000001
    first = report.changes[0]
    assert first.saves == waiting and "num_workers" in first.text and len(report.changes) <= 3
    gemm = next(use for use in report.kernels if use.name == "gemm")
    # Forward two products, backward three, as the first layer's input needs no gradient.
    of_step = 2 * 2 * (64 * 256 + 256 * 8) + 2 * 2 * (64 * 256 + 2 * 256 * 8)
    assert gemm.count == 4 * 5 and gemm.flops == 4 * of_step
    assert gemm.limit == pytest.approx(
        max(gemm.limit, 1e6 * gemm.flops / report.limits.flops), rel=1e-6
    )
    text = str(report)
    for words in ("in 4 steps", "waiting for data", "GB/s", "What would pay most:", "gemm"):
        assert words in text


def test_events_cover_a_training_step():
    """Each call of the step is an event right below it: which share of the time that is, depends on
    the machine, and `python -m bench.observers` measures it."""
    model = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(128, 128), nn.Tanh())))
    optimizer = rushlight.optim.SGD(model.parameters(), lr=0.01)
    x = rushlight.randn(256, 128)
    with profile(
        schedule=schedule(wait=0, warmup=1, active=3, repeat=1), with_modules=True
    ) as prof:
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            prof.step()
    report = Report(prof.recording, Limits(1e10, 1e11))
    events = prof.events()
    calls = [e for e in events if e.depth == 1]
    assert [e.name for e in calls] == 3 * [
        "Optimizer.zero_grad#SGD.zero_grad", "nn.Module: Sequential", "aten::square", "aten::sum",
        "autograd::engine::run_backward", "Optimizer.step#SGD.step",
    ]  # fmt: skip
    lengths = [e.time_range.end - e.time_range.start for e in calls]
    assert report.covered == pytest.approx(sum(lengths)) and report.covered <= report.wall
    layers = [e.name for e in events if e.depth == 2 and e.name.startswith("nn.Module")]
    assert layers == 3 * [f"nn.Module: {i}" for i in range(12)]
    nodes = [e.name for e in events if e.in_backward and e.depth == 3 and "Backward0" in e.name]
    chain = ["SumBackward0", "PowBackward0", *6 * ["TanhBackward0", "AddmmBackward0"]]
    assert nodes == 3 * chain


def test_limits():
    machine = rushlight.profiler.report.machine_limits()
    assert 1e8 < machine.bandwidth < 1e13 and 1e8 < machine.flops < 1e15
    with profile() as prof:
        rushlight.ones(1000, 1000) + 1
    report = Report(prof.recording, Limits(bandwidth=1e9, flops=1e15))
    add = next(use for use in report.kernels if use.name == "add")
    assert add.bytes == 8_000_004 or add.bytes == 8_000_000
    assert add.limit == pytest.approx(8000, rel=1e-3)  # microseconds


def test_copies_are_told_apart():
    x = rushlight.ones(1000, 1000)
    with profile() as prof:
        for _ in range(5):
            x.t().contiguous()
    report = Report(prof.recording, Limits(1e12, 1e12))
    assert report.parts["copies"] > report.parts["kernels"]
    (change,) = (c for c in report.changes if c.text.startswith("avoid copies"))
    place = test_copies_are_told_apart.__code__.co_firstlineno + 4
    assert f"{__file__}:{place}" in change.text


@pytest.mark.parametrize(
    "name, inputs, result, expected",
    [
        ("mm", [[2, 3], [3, 5]], [2, 5], 60),
        ("bmm", [[4, 2, 3], [4, 3, 5]], [4, 2, 5], 240),
        ("addmm", [[5], [2, 3], [3, 5]], [2, 5], 60),
        ("convolution", [[1, 4, 8, 8], [6, 2, 3, 3]], [1, 6, 6, 6], 2 * 216 * 18),
        ("scaled_dot_product_attention", [[2, 5, 8]] * 3, [2, 5, 8], 2 * 2 * 5 * 5 * 8 * 2),
        ("exp", [[3, 4]], [3, 4], 12),
        ("sum", [[3, 4]], [], 12),
        ("view", [[3, 4]], [12], 0),
    ],
)
def test_flops(name, inputs, result, expected):
    given = [("float32", sizes) for sizes in inputs]
    assert flops.flops_of(name, given, [("float32", result)]) == expected


def test_pictures(tmp_path):
    with profile(profile_memory=True) as prof:
        x = rushlight.randn(64, 64, requires_grad=True)
        (x @ x).tanh().sum().backward()
    page = prof.flame_graph()
    page.save(tmp_path / "flame.html")
    text = (tmp_path / "flame.html").read_text()
    assert "http" not in text.replace("http-equiv", "") and "<script" not in text
    drawing = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    bars = {r[0].text.split(":")[0]: float(r.get("width")) for r in drawing.iter("rect")}
    assert bars["all"] == 1200.0 and max(bars.values()) == 1200.0
    assert any("aten" in told for told in bars) and "<svg" in page._repr_html_()
    prof.export_memory_timeline(tmp_path / "memory.html")
    assert "polygon" in (tmp_path / "memory.html").read_text()
    assert "polygon" in prof.memory_timeline()._repr_html_()


def test_memory_timelines(tmp_path):
    model = nn.Linear(64, 64)
    optimizer = rushlight.optim.Adam(model.parameters())
    with profile(profile_memory=True) as prof:
        model(rushlight.ones(32, 64)).tanh().sum().backward()
        optimizer.step()
    prof.export_memory_timeline(tmp_path / "memory.json")
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert times == sorted(times) and len(times) == len(sizes)
    assert all(row[0] == 0 for row in sizes)  # where sums begin
    sizes = [row[1:] for row in sizes]
    assert all(len(row) == len(CATEGORIES) and min(row) >= 0 for row in sizes)
    last = dict(zip(CATEGORIES, sizes[-1]))
    weights = (64 * 64 + 64) * 4
    assert last["gradient"] == weights
    assert 2 * weights <= last["optimizer state"] <= 2 * weights + 64
    peak = {name: max(row[i] for row in sizes) for i, name in enumerate(CATEGORIES)}
    assert peak["activation"] >= 32 * 64 * 4
    prof.export_memory_timeline(tmp_path / "memory.raw.json.gz")
    with gzip.open(tmp_path / "memory.raw.json.gz", "rt") as file:
        raw = json.load(file)
    left = [0] * len(CATEGORIES)
    for _, action, more, place in raw:
        assert (action, more >= 0) in ((2, True), (4, False))
        left[place] += more
    assert left == sizes[-1] and raw == sorted(raw)
    timeline = of_libraries.MemoryProfileTimeline(prof._memory_profile())
    assert timeline._coalesce_timeline("cpu") == (times, [[0, *row] for row in sizes])
    names = [c.name.lower().replace("_", " ") for c in of_libraries._CATEGORY_TO_INDEX if c]
    assert (*names, "unknown") == CATEGORIES
    with pytest.raises(ValueError, match="must be 'cpu'"):
        timeline._coalesce_timeline("cuda:0")
    prof.export_memory_timeline(tmp_path / "memory.txt")  # of any other ending: the first form
    assert json.loads((tmp_path / "memory.txt").read_text())[0] == times
    with profile() as prof:
        rushlight.ones(1)
    with pytest.raises(ValueError, match="profile_memory=True"):
        prof.export_memory_timeline(tmp_path / "memory.html")


class Nvtx:
    """Stands in for NVIDIA's library, which is not on every machine."""

    def __init__(self):
        self.seen, self.depth = [], 0
        push_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
        pop_type = ctypes.CFUNCTYPE(ctypes.c_int)
        self.nvtxRangePushA, self.nvtxRangePop = push_type(self._push), pop_type(self._pop)

    def _push(self, name):
        self.seen.append((self.depth, name.decode()))
        self.depth += 1
        return self.depth

    def _pop(self):
        self.depth -= 1
        return self.depth


def test_nvtx_ranges(monkeypatch):
    library = Nvtx()
    monkeypatch.setattr(rushlight.profiler.ranges, "_open_nvtx", lambda: library)
    x = rushlight.ones(3, requires_grad=True)
    with emit_nvtx(), older.record_function("mine"):
        x.exp().sum().backward()
    assert library.depth == 0 and library.seen[0] == (0, "mine")
    names = [name for _, name in library.seen]
    assert any(name.startswith("aten::exp, seq = ") for name in names)
    assert "autograd::engine::evaluate_function: ExpBackward0" in names
    count = len(library.seen)
    x.exp()
    assert len(library.seen) == count
    with profile(), pytest.raises(RuntimeError, match="a profile is under way"), emit_nvtx():
        pass
    assert not older._profiler_enabled()


def test_other_tools_that_are_not_there():
    with emit_nvtx(enabled=False), emit_itt(enabled=False):
        rushlight.ones(2)
    with pytest.raises(RuntimeError, match="emit_itt: this build cannot"):
        emit_itt()
    with pytest.raises(NotImplementedError, match="record_shapes"):
        emit_nvtx(record_shapes=True)


# The tables that nvprof writes, and what load_nvprof reads of them.
NVPROF = """
CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (
    _id_ INTEGER PRIMARY KEY AUTOINCREMENT, flags INT NOT NULL, timestamp INT NOT NULL,
    id INT NOT NULL, objectKind INT NOT NULL, objectId BLOB NOT NULL, name INT NOT NULL,
    domain INT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    _id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL,
    end INT NOT NULL, processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL,
    returnValue INT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (
    _id_ INTEGER PRIMARY KEY AUTOINCREMENT, cacheConfig BLOB NOT NULL,
    sharedMemoryConfig INT NOT NULL, registersPerThread INT NOT NULL,
    partitionedGlobalCacheRequested INT NOT NULL, partitionedGlobalCacheExecuted INT NOT NULL,
    start INT NOT NULL, end INT NOT NULL, completed INT NOT NULL, deviceId INT NOT NULL,
    contextId INT NOT NULL, streamId INT NOT NULL, gridX INT NOT NULL, gridY INT NOT NULL,
    gridZ INT NOT NULL, blockX INT NOT NULL, blockY INT NOT NULL, blockZ INT NOT NULL,
    staticSharedMemory INT NOT NULL, dynamicSharedMemory INT NOT NULL,
    localMemoryPerThread INT NOT NULL, localMemoryTotal INT NOT NULL, correlationId INT NOT NULL,
    gridId INT NOT NULL, name INT NOT NULL);
"""


def nvprof_file(path, ranges):
    """A file of ranges (number, name, time) and one kernel, which was launched at 3000."""
    base = sqlite3.connect(path)
    base.executescript(NVPROF)
    names = ["outer", "mm", "_Z4gemmIfEvPKT_i"]
    base.executemany("INSERT INTO StringTable (value) VALUES (?)", [(name,) for name in names])
    base.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MARKER (flags, timestamp, id, objectKind, objectId, name,"
        " domain) VALUES (2, ?, ?, 2, x'', ?, 0)",
        [(time, number, name) for number, name, time in ranges],
    )
    base.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (cbid, start, end, processId, threadId,"
        " correlationId, returnValue) VALUES (211, 3000, 3200, 1, 1, 55, 0)"
    )
    base.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES (1, x'', 0, 32, 0, 0, 3500, 8500,"
        " 8500, 0, 1, 7, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 55, 9, 3)"
    )
    base.commit()
    base.close()
    return path


def test_files_of_nvprof(tmp_path):
    markers = [(7, 1, 1000), (8, 2, 2000), (8, 0, 5000), (7, 0, 9000)]
    outer, inner = load_nvprof(nvprof_file(tmp_path / "trace.nvvp", markers))
    assert (outer.name, outer.cpu_time_total, inner.name) == ("outer", 8.0, "mm")
    assert inner.cpu_parent is outer and outer.self_cpu_time_total == 5.0
    kernel = ("void gemm<float>(float const*, int)", 0, 5.0)
    assert inner.kernels == [kernel] and outer.kernels == []
    assert outer.device_time_total == inner.device_time_total == 5.0
    assert [(e.thread, e.node_id, e.id) for e in (outer, inner)] == [(0, 0, 7), (0, 0, 8)]
    table = load_nvprof(tmp_path / "trace.nvvp").key_averages().table()
    assert "Node ID" in table and "CUDA total" in table and "5.000us" in table
    with pytest.raises(FileNotFoundError, match=r"nothing\.nvvp"):
        load_nvprof(tmp_path / "nothing.nvvp")
    again = nvprof_file(tmp_path / "again.nvvp", [*markers, (8, 2, 9500), (8, 0, 9900)])
    with pytest.raises(RuntimeError, match="more than one range of number 8"):
        load_nvprof(again)


def test_bottleneck(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, rushlight\nassert sys.argv[1] == '--size'\n"
        "rushlight.ones(int(sys.argv[2]), 3).exp()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "rushlight.utils.bottleneck", script, "--size", "7"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for words in ("cProfile", "aten::exp", "Self CPU time total", "Environment", "threads"):
        assert words in ran.stdout
