"""Timers whose requests go through a queue of multiprocessing."""

from __future__ import annotations

import logging
import os
import queue
import signal
import time

from rushlight.distributed.elastic.timer.api import (
    RequestQueue,
    TimerClient,
    TimerRequest,
    TimerServer,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_logger = logging.getLogger(__name__)


class LocalTimerClient(TimerClient):
    """Sets timers of this process at the LocalTimerServer of its parent.

    Args:
        mp_queue: the server's queue.
    """

    def __init__(self, mp_queue: Any) -> None:
        super().__init__()
        self._mp_queue = mp_queue

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Set a timer."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id: str) -> None:
        """Release a timer."""
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """Requests in a queue of multiprocessing.

    Args:
        mp_queue: the queue.
    """

    def __init__(self, mp_queue: Any) -> None:
        super().__init__()
        self._mp_queue = mp_queue

    def size(self) -> int:
        """How many there are at least."""
        return self._mp_queue.qsize()

    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """Wait for up to `size` of them, no longer than `timeout` seconds."""
        found, end = [], time.monotonic() + timeout
        while len(found) < size:
            try:
                found.append(self._mp_queue.get(timeout=max(0.0, end - time.monotonic())))
            except queue.Empty:
                break
        return found


class LocalTimerServer(TimerServer):
    """Kills the processes of this machine whose timers have run out.

    Args:
        mp_queue: the queue of the clients.
        max_interval: how long to wait for requests before looking at the clock, in seconds.
        daemon: may the process end while the server runs?
    """

    def __init__(self, mp_queue: Any, max_interval: float = 60, daemon: bool = True) -> None:
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers: dict[tuple[Any, str], TimerRequest] = {}

    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Set and release timers."""
        for request in timer_requests:
            key = request.worker_id, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_ids: set[int]) -> None:
        """Forget all timers of processes."""
        self._timers = {k: one for k, one in self._timers.items() if k[0] not in worker_ids}

    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """process -> its timers that have run out by then."""
        expired: dict[Any, list[TimerRequest]] = {}
        for one in self._timers.values():
            if one.expiration_time <= deadline:
                expired.setdefault(one.worker_id, []).append(one)
        return expired

    def _reap_worker(self, worker_id: int) -> bool:
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            _logger.info("timer server: process %s has ended already", worker_id)
        except PermissionError:
            _logger.exception("timer server: process %s cannot be killed", worker_id)
            return False
        return True


__all__ = ["LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"]
