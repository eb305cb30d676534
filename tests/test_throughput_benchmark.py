"""utils.ThroughputBenchmark: calls of a module by several threads."""

import json
import threading

import pytest

import rushlight
from rushlight.utils import ThroughputBenchmark
from rushlight.utils.throughput_benchmark import ExecutionStats, format_time


class Counting(rushlight.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.threads, self.lock = [], set(), threading.Lock()

    def forward(self, x, scale=1):
        with self.lock:
            self.calls.append((x.item(), scale))
            self.threads.add(threading.get_ident())
        return x * scale


def bench_of(module):
    bench = ThroughputBenchmark(module)
    bench.add_input(rushlight.tensor(1.0))
    bench.add_input(rushlight.tensor(2.0), scale=3)
    return bench


def test_one_call():
    module = Counting()
    assert bench_of(module).run_once(rushlight.tensor(5.0), scale=2).item() == 10
    assert module.calls == [(5, 2)]


def test_measured_calls():
    module = Counting()
    stats = bench_of(module).benchmark(num_calling_threads=3, num_warmup_iters=2, num_iters=40)
    assert isinstance(stats, ExecutionStats) and stats.num_iters == 40
    assert len(module.calls) == 3 * 2 + 40 and len(module.threads) == 3
    assert set(module.calls) == {(1, 1), (2, 3)}
    assert stats.latency_avg_ms > 0 and stats.benchmark_config.num_calling_threads == 3
    total = stats.num_iters * stats.latency_avg_ms / 1000 / 3
    assert stats.total_time_seconds == pytest.approx(total)
    assert stats.iters_per_second == pytest.approx(stats.num_iters / total)
    lines = str(stats).splitlines()
    assert lines[0].startswith("Average latency per example: ")
    assert lines[1] == "Total number of iterations: 40"


def test_trace_of_the_measured_calls(tmp_path):
    path = tmp_path / "trace.json"
    bench_of(Counting()).benchmark(num_iters=3, profiler_output_path=str(path))
    names = [event["name"] for event in json.loads(path.read_text())["traceEvents"]]
    assert "aten::mul" in names


def test_what_a_module_raises():
    class Failing(rushlight.nn.Module):
        def forward(self, x, scale=1):
            raise KeyError("of the module")

    for warmup in (0, 1):
        with pytest.raises(KeyError, match="of the module"):
            bench_of(Failing()).benchmark(num_calling_threads=2, num_warmup_iters=warmup)
    with pytest.raises(RuntimeError, match="add_input"):
        ThroughputBenchmark(Counting()).benchmark()
    for wrong in ({"num_calling_threads": 0}, {"num_iters": 0}):
        with pytest.raises(RuntimeError, match="at least"):
            bench_of(Counting()).benchmark(**wrong)


def test_times_as_text():
    assert format_time(time_us=5) == "5.000us"
    assert format_time(time_ms=0.5) == "500.000us"
    assert format_time(time_ms=5) == "5.000ms"
    assert format_time(time_s=2) == "2.000s"
    for wrong in ({}, {"time_us": 1, "time_s": 1}):
        with pytest.raises(AssertionError, match="one of"):
            format_time(**wrong)
