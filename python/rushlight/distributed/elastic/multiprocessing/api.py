"""Several processes that run a function or a command, with files for what they write."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure, record
from rushlight.distributed.elastic.multiprocessing.redirects import (
    redirect_stderr,
    redirect_stdout,
)
from rushlight.distributed.elastic.multiprocessing.subprocess_handler import get_subprocess_handler
from rushlight.distributed.elastic.multiprocessing.tail_log import TailLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


class SignalException(Exception):
    """This process was told to end.

    Args:
        msg: what is to be said.
        sigval: the signal.
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


def _raise_signal(number: int, frame: FrameType | None) -> None:
    received = signal.Signals(number)
    raise SignalException(f"Process {os.getpid()} got signal: {received}", received)


class Std(enum.IntFlag):
    """Streams of a process."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """Streams by their number, for all workers or as "WORKER:NUMBER,...".

        Example:
            >>> from rushlight.distributed.elastic.multiprocessing import Std
            >>> Std.from_str("0:3,1:1") == {0: Std.ALL, 1: Std.OUT}
            True
        """
        if re.fullmatch("[0123]", vm):
            return cls(int(vm))
        if not re.fullmatch(r"\d+:[0123](,\d+:[0123])*", vm):
            raise ValueError(f"Std: expected 0, 1, 2, 3 or WORKER:NUMBER,..., got {vm!r}")
        pairs = (part.split(":") for part in vm.split(","))
        return {int(worker): cls(int(number)) for worker, number in pairs}


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """Streams for each worker; those that a dict leaves out have none."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {i: val_or_map.get(i, Std.NONE) for i in range(local_world_size)}


def _files():
    return dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class LogsDest:
    """The files of workers, by their numbers; "" is the console.

    Args:
        stdouts, stderrs: where streams go.
        tee_stdouts, tee_stderrs: those that are shown as well.
        error_files: where exceptions go.
        filtered_stdout, filtered_stderr: where chosen lines go.
    """

    stdouts: dict[int, str] = _files()
    stderrs: dict[int, str] = _files()
    tee_stdouts: dict[int, str] = _files()
    tee_stderrs: dict[int, str] = _files()
    error_files: dict[int, str] = _files()
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(abc.ABC):
    """Where workers write.

    Args:
        log_dir: the folder.
        redirects: streams that go to files.
        tee: streams that go to files and are shown.
        local_ranks_filter: the workers whose output is shown; None shows all.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abc.abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of workers with these environments."""

    @property
    @abc.abstractmethod
    def root_log_dir(self) -> str:
        """The folder."""


class DefaultLogsSpecs(LogsSpecs):
    """Files in FOLDER/RUN/attempt_NUMBER/WORKER: stdout.log, stderr.log and error.json.

    Args:
        log_dir: the folder; a temporary one by default, and none for os.devnull.
        redirects: streams that go to files.
        tee: streams that go to files and are shown.
        local_ranks_filter: the workers whose output is shown; None shows all.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        if log_dir and log_dir != os.devnull:
            if os.path.isfile(log_dir):
                raise NotADirectoryError(f"log_dir: {log_dir} is a file")
            os.makedirs(log_dir, exist_ok=True)
        self._temporary: str | None = None
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_folder: str | None = None

    @property
    def root_log_dir(self) -> str:
        """The folder; a temporary one is made when it is asked for."""
        if not self._root_log_dir:
            self._root_log_dir = self._temporary = tempfile.mkdtemp(prefix="torchelastic_")
        return str(self._root_log_dir)

    def _forget(self):
        """Remove a temporary folder that has no streams in it."""
        streams = (self._redirects, self._tee)
        if self._temporary and not any(any(to_map(s, 99).values()) for s in streams):
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._root_log_dir = self._temporary = self._run_folder = None

    def _attempt_folder(self, first):
        if self._run_folder is None:
            run = first.get("TORCHELASTIC_RUN_ID", "test_run_id")
            self._run_folder = tempfile.mkdtemp(prefix=f"{run}_", dir=self.root_log_dir)
        attempt = first.get("TORCHELASTIC_RESTART_COUNT", "0")
        folder = os.path.join(self._run_folder, f"attempt_{attempt}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        return folder

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of workers with these environments, which get TORCHELASTIC_ERROR_FILE."""
        count, dest = len(envs), LogsDest()
        redirects, tees = to_map(self._redirects, count), to_map(self._tee, count)
        if self._root_log_dir == os.devnull:
            for i in range(count):
                dest.stdouts[i] = dest.stderrs[i] = ""
                dest.error_files[i], envs[i]["TORCHELASTIC_ERROR_FILE"] = os.devnull, ""
            return dest
        folder = self._attempt_folder(envs.get(0, {}))
        for i in range(count):
            own = os.path.join(folder, str(i))
            os.mkdir(own)
            shown = not self._local_ranks_filter or i in self._local_ranks_filter
            for stream, name, files, copies in (
                (Std.OUT, "stdout.log", dest.stdouts, dest.tee_stdouts),
                (Std.ERR, "stderr.log", dest.stderrs, dest.tee_stderrs),
            ):
                to_file = bool((redirects[i] | tees[i]) & stream)
                files[i] = os.path.join(own, name) if to_file else "" if shown else os.devnull
                if tees[i] & stream and shown:
                    copies[i] = files[i]
            dest.error_files[i] = os.path.join(own, "error.json")
            envs[i]["TORCHELASTIC_ERROR_FILE"] = dest.error_files[i]
        dest.filtered_stdout = os.path.join(folder, "filtered_stdout.log")
        dest.filtered_stderr = os.path.join(folder, "filtered_stderr.log")
        return dest

    def __repr__(self) -> str:
        return (
            f"DefaultLogsSpecs(root_log_dir={self.root_log_dir}, redirects={self._redirects}, "
            f"tee={self._tee}, local_ranks_filter={self._local_ranks_filter})"
        )


@dataclasses.dataclass
class RunProcsResult:
    """How workers have ended, by their numbers.

    Args:
        return_values: what functions have returned.
        failures: who has failed, and how.
        stdouts, stderrs: the files of their streams.
    """

    return_values: dict[int, Any] = _files()
    failures: dict[int, ProcessFailure] = _files()
    stdouts: dict[int, str] = _files()
    stderrs: dict[int, str] = _files()

    def is_failed(self) -> bool:
        """Has one failed?"""
        return bool(self.failures)


class PContext(abc.ABC):
    """Several workers.

    Args:
        name: what they are.
        entrypoint: a function or a command.
        args: worker -> its arguments.
        envs: worker -> environment variables.
        logs_specs: where they write.
        log_line_prefixes: worker -> how lines that are shown begin.
        duplicate_stdout_filters, duplicate_stderr_filters: lines of shown streams that contain one
            of these go to a file too.
    """

    name: str
    entrypoint: Callable[..., Any] | str
    args: dict[int, tuple[Any, ...]]
    envs: dict[int, dict[str, str]]
    nprocs: int
    error_files: dict[int, str]
    stdouts: dict[int, str]
    stderrs: dict[int, str]

    def __init__(
        self, name: str, entrypoint: Callable[..., Any] | str, args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]], logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:  # fmt: skip
        dest = logs_specs.reify(envs)
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.nprocs, self.error_files = len(args), dest.error_files
        self.stdouts, self.stderrs = dest.stdouts, dest.stderrs
        self._tails = [
            TailLog(name, dest.tee_stdouts, sys.stdout, log_line_prefixes),
            TailLog(name, dest.tee_stderrs, sys.stderr, log_line_prefixes),
        ]
        self._chosen = []
        for words, files, path in (
            (duplicate_stdout_filters, dest.tee_stdouts, dest.filtered_stdout),
            (duplicate_stderr_filters, dest.tee_stderrs, dest.filtered_stderr),
        ):
            if words:
                file = open(path, "w", errors="replace", buffering=1)
                self._chosen.append(file)
                chooses = _contains_one_of(words)
                self._tails.append(
                    TailLog(name, files, file, log_line_prefixes, log_line_filter=chooses)
                )

    def start(self) -> None:
        """Start them. In the main thread, signals that end this process raise SignalException from
        then on: those of TORCHELASTIC_SIGNALS_TO_HANDLE.
        """
        if threading.current_thread() is threading.main_thread():
            names = os.environ.get(
                "TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
            )
            for name in names.split(","):
                signal.signal(signal.Signals[name.strip()], _raise_signal)
        self._start()
        for tail in self._tails:
            tail.start()

    @abc.abstractmethod
    def _start(self) -> None:
        """Start the processes."""

    @abc.abstractmethod
    def _poll(self) -> RunProcsResult | None:
        """The result when all have ended well or one has failed."""

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all have ended well or one has failed.

        Args:
            timeout: how long, in seconds; a negative number: as long as it takes.
            period: seconds between looks.

        Returns:
            The result; None if the time is up.
        """
        end = time.monotonic() + (timeout if timeout >= 0 else float("inf"))
        while True:
            result = self._poll()
            left = end - time.monotonic()
            if result is not None or left <= 0:
                return result
            time.sleep(min(period, left))

    @abc.abstractmethod
    def pids(self) -> dict[int, int]:
        """worker -> its process."""

    @abc.abstractmethod
    def _close(self, death_sig: signal.Signals, timeout: int = 30) -> None:
        """End the processes."""

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End them.

        Args:
            death_sig: the signal; SIGTERM by default.
            timeout: after how many seconds to kill who still runs.
        """
        self._close(death_sig or signal.SIGTERM, timeout)
        for tail in self._tails:
            tail.stop()
        for file in self._chosen:
            file.close()

    def _failed(self, codes):
        """worker -> how it failed."""
        pids = self.pids()
        return {
            i: ProcessFailure(i, pids[i], code, self.error_files[i])
            for i, code in codes.items()
            if code
        }


def _contains_one_of(words):
    return lambda line: any(word in line for word in words)


def get_std_cm(std_rd: str, redirect_fn: Callable[[str], Any]) -> Any:
    """The context in which a stream goes to a file, if there is one."""
    return redirect_fn(std_rd) if std_rd else contextlib.nullcontext()


def _call(number, function, args, environment, stdout, stderr, queue, done):
    """What a process of MultiprocessContext does."""
    os.environ.update(environment)
    with get_std_cm(stdout, redirect_stdout), get_std_cm(stderr, redirect_stderr):
        result = record(function)(*args)
    queue.put(result)
    done.wait()  # tensors in shared memory live as long as this process


class MultiprocessContext(PContext):
    """Workers that call a function.

    Args:
        start_method: how processes are started: "spawn", "fork" or "forkserver".
        numa_options: None.

    The other arguments are those of PContext.
    """

    def __init__(
        self, name: str, entrypoint: Callable[..., Any], args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]], start_method: str, logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None, numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:  # fmt: skip
        import rushlight.multiprocessing as multiprocessing

        if numa_options is not None:
            raise NotImplementedError("MultiprocessContext: numa_options are not supported")
        super().__init__(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters,
            duplicate_stderr_filters,
        )  # fmt: skip
        self.start_method = start_method
        self._context = multiprocessing.get_context(start_method)
        self._queues = [self._context.SimpleQueue() for _ in range(self.nprocs)]
        self._done = self._context.Event()
        self._processes: list[Any] = []
        self._values: dict[int, Any] = {}

    def _start(self):
        if self._processes:
            raise ValueError(f"{self.name}: the processes are started already")
        for i in range(self.nprocs):
            process = self._context.Process(
                target=_call,
                args=(i, self.entrypoint, self.args[i], self.envs[i], self.stdouts[i],
                      self.stderrs[i], self._queues[i], self._done),
            )  # fmt: skip
            process.start()
            self._processes.append(process)

    def _poll(self):
        for i, queue in enumerate(self._queues):
            if i not in self._values and not queue.empty():
                self._values[i] = queue.get()
        if len(self._values) == self.nprocs:
            self._done.set()
            for process in self._processes:
                process.join()
            return RunProcsResult(self._values, {}, self.stdouts, self.stderrs)
        codes = {i: process.exitcode for i, process in enumerate(self._processes)}
        failures = self._failed(codes)
        if not failures:
            return None
        self.close()
        return RunProcsResult({}, failures, self.stdouts, self.stderrs)

    def pids(self) -> dict[int, int]:
        """worker -> its process."""
        return {i: process.pid for i, process in enumerate(self._processes)}

    def _close(self, death_sig, timeout=30):
        for process in self._processes:
            if process.is_alive():
                os.kill(process.pid, death_sig)
        end = time.monotonic() + timeout
        for process in self._processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(timeout)


class SubprocessContext(PContext):
    """Workers that run a command.

    Args:
        numa_options: None.

    The other arguments are those of PContext.
    """

    def __init__(
        self, name: str, entrypoint: str, args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]], logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None, numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters,
            duplicate_stderr_filters,
        )  # fmt: skip
        self._numa_options = numa_options
        self.subprocess_handlers: dict[int, Any] = {}

    def _start(self):
        if self.subprocess_handlers:
            raise ValueError(f"{self.name}: the processes are started already")
        for i in range(self.nprocs):
            self.subprocess_handlers[i] = get_subprocess_handler(
                self.entrypoint, self.args[i], self.envs[i], self.stdouts[i] or None,
                self.stderrs[i] or None, i, self._numa_options,
            )  # fmt: skip

    def _poll(self):
        codes = {i: handler.proc.poll() for i, handler in self.subprocess_handlers.items()}
        failures = self._failed(codes)
        if not failures and None in codes.values():
            return None
        self.close()  # also ends what those that have ended well have left
        return RunProcsResult({}, failures, self.stdouts, self.stderrs)

    def pids(self) -> dict[int, int]:
        """worker -> its process."""
        return {i: handler.proc.pid for i, handler in self.subprocess_handlers.items()}

    def _close(self, death_sig, timeout=30):
        running = [h for h in self.subprocess_handlers.values() if h.proc.poll() is None]
        for handler in running:
            handler.close(death_sig)
        end = time.monotonic() + timeout
        while any(handler.proc.poll() is None for handler in running):
            if time.monotonic() > end:
                for handler in running:
                    if handler.proc.poll() is None:
                        handler.close(signal.SIGKILL)
                        handler.proc.wait(timeout)
                break
            time.sleep(0.02)


__all__ = [
    "DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext",
    "RunProcsResult", "SignalException", "Std", "SubprocessContext", "get_std_cm", "to_map",
]  # fmt: skip
