"""Timers of workers, and who ends the workers whose timers run out."""

from __future__ import annotations

import abc
import contextlib
import logging
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_logger = logging.getLogger(__name__)


class TimerRequest:
    """A timer is set, or released.

    Args:
        worker_id: the worker.
        scope_id: what it does.
        expiration_time: when it has to be done, of `time.time`; a negative number releases.
    """

    __slots__ = ["worker_id", "scope_id", "expiration_time"]
    __hash__: None = None
    worker_id: Any
    scope_id: str
    expiration_time: float

    def __init__(self, worker_id: Any, scope_id: str, expiration_time: float) -> None:
        self.worker_id, self.scope_id = worker_id, scope_id
        self.expiration_time = expiration_time

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimerRequest) and (
            (self.worker_id, self.scope_id, self.expiration_time)
            == (other.worker_id, other.scope_id, other.expiration_time)
        )


class TimerClient(abc.ABC):
    """How a worker sets timers."""

    @abc.abstractmethod
    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer.

        Args:
            scope_id: what it is for.
            expiration_time: when it runs out, of `time.time`.
        """

    @abc.abstractmethod
    def release(self, scope_id: str) -> None:
        """Release a timer."""


class RequestQueue(abc.ABC):
    """The requests that have come to a server."""

    @abc.abstractmethod
    def size(self) -> int:
        """How many there are at least."""

    @abc.abstractmethod
    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """Wait for up to `size` of them, no longer than `timeout` seconds."""


class TimerServer(abc.ABC):
    """Ends workers whose timers have run out, in a thread.

    Args:
        request_queue: where requests come.
        max_interval: how long to wait for requests before looking at the clock, in seconds.
        daemon: may the process end while the thread runs?
    """

    def __init__(
        self, request_queue: RequestQueue, max_interval: float, daemon: bool = True
    ) -> None:
        super().__init__()
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    @abc.abstractmethod
    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Set and release timers."""

    @abc.abstractmethod
    def clear_timers(self, worker_ids: set[Any]) -> None:
        """Forget all timers of workers."""

    @abc.abstractmethod
    def get_expired_timers(self, deadline: float) -> dict[str, list[TimerRequest]]:
        """worker -> its timers that have run out by then."""

    @abc.abstractmethod
    def _reap_worker(self, worker_id: Any) -> bool:
        """End a worker: has it ended?"""

    def _run(self):
        while not self._stopping.is_set():
            try:
                self._look()
            except Exception:
                _logger.exception("timer server: looking at timers failed")

    def _look(self):
        size = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(size, self._max_interval))
        ended = set()
        for worker, timers in self.get_expired_timers(time.time()).items():
            scopes = [timer.scope_id for timer in timers]
            _logger.info("timer server: worker %s did not end %s in time", worker, scopes)
            if self._reap_worker(worker):
                ended.add(worker)
        self.clear_timers(ended)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(
            target=self._run, daemon=self._daemon, name="rushlight timers"
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(self._max_interval + 1.0)
            self._thread = None


_client: TimerClient | None = None


def configure(timer_client: TimerClient) -> None:
    """Choose how this process sets its timers."""
    global _client
    _client = timer_client


@contextlib.contextmanager
def expires(
    after: float, scope: str | None = None, client: TimerClient | None = None
) -> Iterator[None]:
    """A context that has to end in time, or the server ends this process.

    Args:
        after: within so many seconds.
        scope: what it is; the line by default.
        client: how to set the timer; that of `configure` by default.

    Raises:
        RuntimeError: `configure` was not called.
    """
    client = _client if client is None else client
    if client is None:
        raise RuntimeError("Configure timer client before using countdown timers.")
    if scope is None:
        caller = sys._getframe(2)  # behind contextlib's __enter__
        scope = f"{caller.f_code.co_filename}#{caller.f_lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)


__all__ = ["RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires"]
