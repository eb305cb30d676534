"""Running a statement many times."""

from __future__ import annotations

import enum
import textwrap
import time
import timeit

import rushlight
from rushlight.utils.benchmark._measurement import Measurement, TaskSpec, set_torch_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

timer: Callable[[], float] = time.perf_counter


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


def _without_indentation(code):
    """Code as it stands at the left margin: it may have been written inside a function."""
    return textwrap.dedent(code).removeprefix("\n").rstrip()


class Timer:
    """Measures the time of a Python statement.

    Args:
        stmt: the code to run, many times.
        setup: code to run before, once for each measurement.
        globals: names that the code may use; `torch` is there in any case.
        label, sub_label, description, env: names for tables of results.
        num_threads: threads of operations while the statement runs.

    Example:
        >>> Timer("x + 1", globals={"x": rushlight.ones(2)}).timeit(10).number_per_run
        10
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:  # fmt: skip
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Timer: statements are in Python, not in {language}")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`.")
        stmt, setup = _without_indentation(stmt), _without_indentation(setup)
        self._globals = {**(globals or {})}
        self._globals.setdefault("torch", rushlight)
        self._timer = timeit.Timer(stmt, setup, timer, self._globals)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement `number` times, after some runs that do not count."""
        with set_torch_threads(self._task_spec.num_threads):
            self._run(max(number // 100, 2))
            return self._measurement(number, [self._run(number)])

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measure blocks of runs until they have taken `min_run_time` seconds.

        A block is so long that reading the clock takes less than a thousandth of it.
        `callback(number, time)` is called after each.
        """
        return self._measure_until(lambda times: sum(times) >= min_run_time, min_run_time, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measure until the quartiles are within that part of the median, or for max_run_time."""

        def done(times):
            enough = len(times) > 3 and sum(times) >= min_run_time
            return sum(times) >= max_run_time or (
                enough and self._measurement(1, times).meets_confidence(threshold)
            )

        return self._measure_until(done, min_run_time, callback)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raises NotImplementedError, as torch does: `blocked_autorange` repeats."""
        raise NotImplementedError(
            f"Timer.repeat({repeat}, {number}): blocked_autorange measures repeatedly"
        )

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Raises NotImplementedError, as torch does: `blocked_autorange` finds the number."""
        raise NotImplementedError(
            f"Timer.autorange({callback}): blocked_autorange finds how often to run"
        )

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> Any:
        """Refused: instructions are counted by running `valgrind --tool=callgrind` on a program."""
        raise NotImplementedError(
            f"Timer.collect_callgrind(number={number}, repeats={repeats}, collect_baseline="
            f"{collect_baseline}, retain_out_file={retain_out_file}): run valgrind --tool=callgrind"
            " python program.py, which counts instructions too"
        )

    def _measure_until(self, done, min_run_time, callback):
        with set_torch_threads(self._task_spec.num_threads):
            number, times = self._block_size(min_run_time), []
            while not done(times):
                times.append(self._run(number))
                if callback is not None:
                    callback(number, times[-1])
        return self._measurement(number, times)

    def _block_size(self, min_run_time):
        clock = min(timeit.Timer("pass").timeit(0) for _ in range(100))
        number = 1
        while True:
            taken = self._run(number)
            if clock <= 1e-3 * taken or taken >= min_run_time:
                return number
            number *= 10

    def _run(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def _measurement(self, number, times):
        return Measurement(number, times, self._task_spec)
