"""Timers whose requests go through a named pipe, for workers without a queue of the server."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import threading
import time

from rushlight.distributed.elastic.timer.api import TimerClient, TimerRequest
from rushlight.distributed.elastic.timer.debug_info_logging import (
    log_debug_info_for_expired_timers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger(__name__)
_LONGEST_LINE = select.PIPE_BUF  # written in one piece, whoever else writes


class FileTimerRequest(TimerRequest):
    """A timer is set, or released.

    Args:
        worker_pid: the process.
        scope_id: what it does.
        expiration_time: when it has to be done, of `time.time`; a negative number releases.
        signal: the signal that ends the process; 0 for none.
    """

    __slots__ = ["version", "signal"]
    __hash__: None = None
    version: int
    signal: int

    def __init__(
        self, worker_pid: int, scope_id: str, expiration_time: float, signal: int = 0
    ) -> None:
        super().__init__(worker_pid, scope_id, expiration_time)
        self.version, self.signal = 1, signal

    @property
    def worker_pid(self) -> int:
        """The process."""
        return self.worker_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileTimerRequest) and self.to_json() == other.to_json()

    def to_json(self) -> str:
        """The request as JSON."""
        return json.dumps(
            {
                "version": self.version,
                "pid": self.worker_pid,
                "scope_id": self.scope_id,
                "expiration_time": self.expiration_time,
                "signal": self.signal,
            }
        )


class FileTimerClient(TimerClient):
    """Sets timers of this process at a FileTimerServer.

    Args:
        file_path: the server's pipe.
        signal: ends this process when a timer runs out.
    """

    signal: int

    def __init__(self, file_path: str, signal: int = signal.SIGKILL) -> None:
        super().__init__()
        self._file_path, self.signal = file_path, signal

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer."""
        self._send(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id: str) -> None:
        """Release a timer."""
        self._send(FileTimerRequest(os.getpid(), scope_id, -1, 0))

    def _send(self, request):
        line = request.to_json().encode() + b"\n"
        if len(line) > _LONGEST_LINE:
            raise RuntimeError(
                f"FileTimerClient: a request of {len(line)} bytes is longer than {_LONGEST_LINE}"
            )
        try:
            pipe = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise BrokenPipeError(
                f"FileTimerClient: no server reads {self._file_path}: {error}"
            ) from error
        try:
            os.write(pipe, line)
        finally:
            os.close(pipe)


class FileTimerServer:
    """Ends the processes of this machine whose timers have run out, in a thread.

    Args:
        file_path: the named pipe, which the server makes.
        run_id: the run's name.
        max_interval: how long to wait for requests before looking at the clock, in seconds.
        daemon: may the process end while the thread runs?
        log_event: log_event(what, request) is called for each event.
    """

    def __init__(
        self,
        file_path: str,
        run_id: str,
        max_interval: float = 10,
        daemon: bool = True,
        log_event: Callable[[str, FileTimerRequest | None], None] | None = None,
    ) -> None:
        self._file_path, self._run_id = file_path, run_id
        self._max_interval, self._daemon = max_interval, daemon
        self._log_event = log_event or (lambda name, request: None)
        self._timers: dict[tuple[int, str], FileTimerRequest] = {}
        self._received = b""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_progress = time.time()
        if os.path.exists(file_path):
            os.remove(file_path)
        os.mkfifo(file_path)
        # Also open for writing, so that the pipe does not end when a client closes it.
        self._pipe = os.open(file_path, os.O_RDWR | os.O_NONBLOCK)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(
            target=self._run, daemon=self._daemon, name="rushlight timers"
        )
        self._thread.start()
        self._log_event("watchdog started", None)

    def stop(self) -> None:
        """End the thread and remove the pipe."""
        self._stopping.set()
        self._end()
        self._log_event("watchdog stopped", None)

    def run_once(self) -> None:
        """Do what requests that have come want, and end."""
        self._stopping.set()
        self._end()
        self._look(0.0)

    def _end(self):
        if self._thread is not None:
            self._thread.join(self._max_interval + 1.0)
            self._thread = None
        if os.path.exists(self._file_path):
            os.remove(self._file_path)

    @staticmethod
    def is_process_running(pid: int) -> bool:
        """Is there such a process, to which this one may send signals?"""
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True

    def get_last_progress_time(self) -> int:
        """When the thread has looked at the clock, of `time.time`."""
        return int(self._last_progress)

    def _run(self):
        while not self._stopping.is_set():
            try:
                self._look(self._max_interval)
            except Exception:
                _logger.exception("timer server: looking at timers failed")
            self._last_progress = time.time()

    def _look(self, seconds):
        self.register_timers(self._requests(seconds))
        expired = self.get_expired_timers(time.time())
        log_debug_info_for_expired_timers(
            self._run_id, {pid: [one.to_json() for one in ones] for pid, ones in expired.items()}
        )
        ended = set()
        for pid, ones in expired.items():
            ones.sort(key=lambda one: one.expiration_time)
            first = next((one for one in ones if one.signal > 0), None)
            if first is None or self._reap_worker(pid, first.signal):
                ended.add(pid)
                self._log_event("kill worker process" if first else "timer expired", first)
        self.clear_timers(ended)

    def _requests(self, seconds):
        """Those that come within some seconds, in the order in which they were written."""
        if not select.select([self._pipe], [], [], seconds)[0]:
            return []
        *lines, self._received = (self._received + os.read(self._pipe, 1 << 16)).split(b"\n")
        requests = []
        for line in lines:
            told = json.loads(line)
            requests.append(
                FileTimerRequest(
                    told["pid"], told["scope_id"], told["expiration_time"], told["signal"]
                )
            )
        return requests

    def register_timers(self, timer_requests: list[FileTimerRequest]) -> None:
        """Set and release timers."""
        for request in timer_requests:
            key = request.worker_pid, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_pids: set[int]) -> None:
        """Forget all timers of processes, and of those that have ended."""
        for key in list(self._timers):
            if key[0] in worker_pids or not self.is_process_running(key[0]):
                del self._timers[key]

    def get_expired_timers(self, deadline: float) -> dict[int, list[FileTimerRequest]]:
        """process -> its timers that have run out by then."""
        expired: dict[int, list[FileTimerRequest]] = {}
        for one in self._timers.values():
            if one.expiration_time <= deadline:
                expired.setdefault(one.worker_pid, []).append(one)
        return expired

    def _reap_worker(self, worker_pid: int, signal: int) -> bool:
        try:
            os.kill(worker_pid, signal)
        except ProcessLookupError:
            _logger.info("timer server: process %s has ended already", worker_pid)
        except PermissionError:
            _logger.exception("timer server: process %s cannot be ended", worker_pid)
            return False
        return True


__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]
