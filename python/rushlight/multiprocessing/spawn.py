"""One function in several processes, and their errors in the parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import traceback

from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"

# How long a process that was told to end may take before it is killed.
_GRACE_SECONDS = 30.0
_SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl


class ProcessException(Exception):
    """A process failed: `error_index` says which, `error_pid` its process id."""

    msg: str
    error_index: int
    pid: int

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid
        self.error_pid = pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """The process ended by a signal or an exit code."""

    exit_code: int
    signal_name: str | None

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)
        return type(self), state


def _end_with_parent(method, from_main_thread):
    """Not to outlive a parent that is killed: be interrupted then, or now if it has gone."""
    # To Linux the parent is the thread that started this process: one that lives as long as its
    # process must have done that, or the signal would come while the parent works on.
    if sys.platform != "linux" or not (from_main_thread or method == "forkserver"):
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGINT)
    parent = multiprocessing.parent_process()
    if not parent.is_alive() if method == "forkserver" else os.getppid() != parent.pid:
        raise KeyboardInterrupt


def _run(function, rank, args, errors, method, from_main_thread):
    try:
        _end_with_parent(method, from_main_thread)
        function(rank, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too, or has sent it
    except Exception:  # goes to the parent as text, whatever it is
        errors.send((time.monotonic_ns(), traceback.format_exc()))
        raise SystemExit(1) from None


def _log():
    import logging  # which `import rushlight` leaves out

    return logging.getLogger(__name__)


class ProcessContext:
    """The started processes."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Any]) -> None:
        self.processes = processes
        self.sentinels: dict[Any, int] = {
            process.sentinel: i for i, process in enumerate(processes)
        }
        self._errors = dict(enumerate(errors))  # where the text of an exception comes from
        self._texts = {}  # index -> when it was raised, and its text

    def pids(self) -> list[int]:
        """Their process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends: True once all have ended well.

        Args:
            timeout: seconds to wait at most; None waits for ever.
            grace_period: seconds that the others are left to end by themselves after a failure.

        Raises: the first failure, as ProcessRaisedException or ProcessExitedException; the other
            processes are ended first.
        """
        ready = self._wait(timeout)
        ended = [self.sentinels.pop(sentinel) for sentinel in ready]
        for index in ended:
            self.processes[index].join()
        failed = [index for index in ended if self.processes[index].exitcode != 0]
        if not failed:
            return not self.sentinels
        self._read_errors(multiprocessing.connection.wait(list(self._errors.values()), 0))
        first = min({*failed, *self._texts}, key=self._order_of_failure)
        self._end_all(grace_period)
        self._fail(first)

    def _order_of_failure(self, index):
        """Sorts processes that were found to have failed at the same time: causes come first.

        When one is killed, the others raise for want of it.
        """
        raised_at, _ = self._texts.get(index, (float("inf"), ""))
        code = self.processes[index].exitcode  # None: it has raised, and still runs
        return code is None or code >= 0, raised_at, index

    def _wait(self, timeout):
        """The sentinels of those that have ended; meanwhile, takes in what processes report."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.sentinels:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = multiprocessing.connection.wait([*self.sentinels, *self._errors.values()], left)
            self._read_errors(ready)
            ended = [sentinel for sentinel in ready if sentinel in self.sentinels]
            if ended or (deadline is not None and time.monotonic() >= deadline):
                return ended
        return []

    def _read_errors(self, ready):
        for index, connection in list(self._errors.items()):
            if connection in ready:
                try:
                    self._texts[index] = connection.recv()
                except EOFError:
                    connection.close()
                    del self._errors[index]

    def _end_all(self, grace_period):
        deadline = time.monotonic() + (grace_period or 0.0)
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in self.processes:
            if process.is_alive():
                _log().warning("Terminating process %d via signal SIGTERM", process.pid)
                process.terminate()
        deadline = time.monotonic() + _GRACE_SECONDS
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                _warn_program(f"process {process.pid} did not end when told to and is killed")
                process.kill()
                process.join()
        self.sentinels.clear()

    def _fail(self, failed):
        process = self.processes[failed]
        self._read_errors(multiprocessing.connection.wait(list(self._errors.values()), 0))
        for connection in self._errors.values():
            connection.close()
        self._errors.clear()
        if failed in self._texts:
            raise ProcessRaisedException(
                f"\n\n-- Process {failed} terminated with the following error:\n"
                f"{self._texts[failed][1]}",
                failed,
                process.pid,
            )
        code = process.exitcode
        name = signal.Signals(-code).name if code < 0 else None
        how = f"signal {name}" if name else f"exit code {code}"
        raise ProcessExitedException(
            f"process {failed} terminated with {how}", failed, process.pid, code, name
        )


class SpawnContext(ProcessContext):
    """The older name of `ProcessContext`."""


def start_processes(
    fn: Callable[..., Any],
    args: Any = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(rank, *args) in nprocs processes; see `spawn`, which starts fresh ones.

    Args:
        start_method: "spawn", "fork" or "forkserver", whose processes are started side by side
            where the environment variable TORCH_MP_PARALLEL_START is 1.
    """
    context = multiprocessing.get_context(start_method)
    from_main_thread = threading.current_thread() is threading.main_thread()

    def start(rank):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_run,
            args=(fn, rank, args, sender, start_method, from_main_thread),
            daemon=daemon,
        )
        process.start()
        sender.close()
        return process, receiver

    if start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START) == "1":
        import concurrent.futures

        with concurrent.futures.ThreadPoolExecutor(max(1, nprocs)) as pool:
            running = list(pool.map(start, range(nprocs)))
    else:
        running = list(map(start, range(nprocs)))
    started = ProcessContext([process for process, _ in running], [r for _, r in running])
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Any = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run fn(rank, *args) in nprocs fresh processes.

    Args:
        fn: a function that can be imported from its module.
        args: sent to every process; tensors in it are shared, not copied.
        nprocs: how many.
        join: wait for all of them; otherwise the ProcessContext is returned.
        daemon: end them with this process.

    Raises: ProcessRaisedException with the traceback of the first that failed by an exception,
        ProcessExitedException if it was ended by a signal or an exit code.
    """
    if start_method != "spawn":
        _warn_program(
            f"spawn always starts fresh processes; start_processes takes {start_method!r}",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
