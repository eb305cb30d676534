"""How often several threads can call a module in a second."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ExecutionStats", "ThroughputBenchmark", "format_time"]


def format_time(
    time_us: float | None = None, time_ms: float | None = None, time_s: float | None = None
) -> str:
    """A time as text, in s, ms or us, whichever suits.

    Args:
        time_us, time_ms, time_s: one of them.

    Example:
        >>> format_time(time_ms=0.5)
        '500.000us'
    """
    given = [(time_us, 1.0), (time_ms, 1e3), (time_s, 1e6)]
    times = [value * factor for value, factor in given if value is not None]
    if len(times) != 1:
        raise AssertionError("Expected only one of time_us, time_ms, time_s is given.")
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if times[0] >= factor:
            return f"{times[0] / factor:.3f}{unit}"
    return f"{times[0]:.3f}us"


@dataclass
class _Settings:
    num_calling_threads: int
    num_warmup_iters: int
    num_iters: int
    profiler_output_path: str


@dataclass
class _Measured:
    latency_avg_ms: float
    num_iters: int


class ExecutionStats:
    """What a run of `ThroughputBenchmark` measured."""

    def __init__(self, c_stats: Any, benchmark_config: Any) -> None:
        self._c_stats = c_stats
        self.benchmark_config = benchmark_config

    @property
    def latency_avg_ms(self) -> float:
        """How long a call took, on average, in milliseconds."""
        return self._c_stats.latency_avg_ms

    @property
    def num_iters(self) -> int:
        """How many calls were measured."""
        return self._c_stats.num_iters

    @property
    def iters_per_second(self) -> float:
        """Calls in a second, of all threads together."""
        return self.num_iters / self.total_time_seconds

    @property
    def total_time_seconds(self) -> float:
        """How long the calls took, which ran in several threads at a time."""
        threads = self.benchmark_config.num_calling_threads
        return self.num_iters * (self.latency_avg_ms / 1000.0) / threads

    def __str__(self) -> str:
        return "\n".join(
            [
                "Average latency per example: " + format_time(time_ms=self.latency_avg_ms),
                f"Total number of iterations: {self.num_iters}",
                "Total number of iterations per second (across all threads): "
                f"{self.iters_per_second:.2f}",
                "Total time: " + format_time(time_s=self.total_time_seconds),
            ]
        )


class ThroughputBenchmark:
    """Calls a module from several threads, as a server does, and measures how long that takes.

    Args:
        module: the module, or any function.

    Example:
        >>> import rushlight
        >>> bench = ThroughputBenchmark(rushlight.nn.Linear(2, 2))
        >>> bench.add_input(rushlight.ones(1, 2))
        >>> bench.benchmark(num_calling_threads=2, num_iters=20).num_iters >= 20
        True
    """

    def __init__(self, module: Callable[..., Any]) -> None:
        self._module = module
        self._inputs: list[tuple[Any, Any]] = []

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, and return what it does."""
        return self._module(*args, **kwargs)

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """Add arguments to those of which each call takes some, by chance."""
        self._inputs.append((args, kwargs))

    def benchmark(
        self,
        num_calling_threads: int = 1,
        num_warmup_iters: int = 10,
        num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> ExecutionStats:
        """Measure.

        Args:
            num_calling_threads: how many threads call at the same time.
            num_warmup_iters: calls of each thread before it is measured.
            num_iters: measured calls of all threads together, or a few more.
            profiler_output_path: a file for the trace of a profile of the measured calls; none by
                default.

        Raises:
            RuntimeError: there are no inputs.
        """
        settings = _Settings(num_calling_threads, num_warmup_iters, num_iters, profiler_output_path)
        if not self._inputs:
            raise RuntimeError("ThroughputBenchmark.benchmark: add_input() was not called")
        if num_calling_threads < 1 or num_iters < 1:
            raise RuntimeError(
                "ThroughputBenchmark.benchmark: expected a thread and an iteration at least, got "
                f"num_calling_threads={num_calling_threads}, num_iters={num_iters}"
            )
        run = _Run(self._module, self._inputs, settings)
        if not profiler_output_path:
            return ExecutionStats(run.measured(), settings)
        from rushlight.autograd.profiler import profile

        with profile() as recorded:
            measured = run.measured()
        recorded.export_chrome_trace(profiler_output_path)
        return ExecutionStats(measured, settings)


class _Run:
    """The calls of all threads."""

    def __init__(self, module, inputs, settings):
        self._module, self._inputs, self._settings = module, inputs, settings
        self._lock = threading.Lock()
        self._ready = threading.Barrier(settings.num_calling_threads + 1)
        self._begun, self._failure = 0, None

    def measured(self):
        count = self._settings.num_calling_threads
        threads = [threading.Thread(target=self._thread, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        try:
            self._ready.wait()
        except threading.BrokenBarrierError:
            pass  # the failure is raised below
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        elapsed = time.perf_counter() - start
        if self._failure is not None:
            raise self._failure
        return _Measured(1000 * elapsed * count / self._begun, self._begun)

    def _thread(self, number):
        chance = random.Random(number)
        try:
            for _ in range(self._settings.num_warmup_iters):
                self._call(chance)
            self._ready.wait()
            while self._goes_on():
                self._call(chance)
        except threading.BrokenBarrierError:
            pass  # another thread failed
        except BaseException as error:
            self._failure = error
            self._ready.abort()

    def _call(self, chance):
        args, kwargs = chance.choice(self._inputs)
        self._module(*args, **kwargs)

    def _goes_on(self):
        with self._lock:
            if self._failure is not None or self._begun >= self._settings.num_iters:
                return False
            self._begun += 1
            return True
