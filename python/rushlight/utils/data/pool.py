"""The workers of a loader, as processes or as threads, behind one interface.

A pool has `send(worker, message)`, `receive(timeout)`, which returns a worker's number and its
reply, or None after `timeout` seconds, and `close()`.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import time
from multiprocessing import reduction
from typing import Any

from rushlight import _pickling
from rushlight.utils.data import transfer
from rushlight.utils.data.worker import process_main, thread_main

# How long workers may take to finish what they are doing before they are terminated.
_GRACE_SECONDS = 5.0


class ProcessPool:
    """Worker processes, each at the end of a pipe of its own.

    With a pipe for each, a worker that is killed cannot leave a shared lock taken, and the main
    process needs no thread that a later fork would have to respect.
    """

    def __init__(self, context: Any, job: Any) -> None:
        self._connections = []
        self._receivers = []
        self._processes = []
        self._owner = os.getpid()
        try:
            for index in range(job.count):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=process_main, args=(theirs, index, job, os.getpid()), daemon=True
                )
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._receivers.append(transfer.Receiver(ours))
                self._processes.append(process)
        except BaseException as error:
            self.close()
            if isinstance(error, (pickle.PicklingError, AttributeError, TypeError)):
                _pickling.note_unpicklable(
                    error, "DataLoader", {**job.source._asdict(), "worker_init_fn": job.init_fn},
                    reduction.ForkingPickler.dumps,
                    "where workers are started by 'spawn' or 'forkserver' they get a copy of what "
                    "they work with; define functions and classes in a module",
                )  # fmt: skip
            raise

    def send(self, worker: int, message: Any) -> None:
        try:
            transfer.send(self._connections[worker], transfer.pack(message))
        except (BrokenPipeError, ConnectionResetError):
            self._report_death(worker)

    def receive(self, timeout: float | None) -> Any:
        from multiprocessing.connection import wait

        sentinels = [process.sentinel for process in self._processes]
        ready = wait(self._connections + sentinels, timeout)
        for worker, connection in enumerate(self._connections):
            if connection in ready:
                try:
                    return worker, self._receivers[worker].receive()
                except (EOFError, ConnectionResetError):
                    self._report_death(worker)
        for worker, sentinel in enumerate(sentinels):
            if sentinel in ready:
                self._report_death(worker)
        return None

    def _report_death(self, worker):
        process = self._processes[worker]
        process.join(_GRACE_SECONDS)
        code = process.exitcode
        if code is not None and code < 0:
            how = f"is killed by signal: {signal.strsignal(-code)}"
        else:
            how = f"exited unexpectedly with exit code {code}"
        raise RuntimeError(f"DataLoader worker {worker} (pid {process.pid}) {how}")

    def close(self) -> None:
        if os.getpid() != self._owner:
            return  # a copy in a forked child: the workers are not the child's
        for connection in self._connections:
            try:
                transfer.send(connection, transfer.pack(None))
            except (BrokenPipeError, ConnectionResetError):
                pass  # that worker has gone already
        deadline = time.monotonic() + _GRACE_SECONDS
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.terminate()
        for connection in self._connections:
            connection.close()
        self._connections, self._receivers, self._processes = [], [], []


class ThreadPool:
    """Worker threads: no start-up cost and one dataset in memory.

    They gain speed where reading and decoding release the interpreter lock.
    """

    def __init__(self, job: Any) -> None:
        self._replies = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._requests = [queue.SimpleQueue() for _ in range(job.count)]
        self._threads = [
            threading.Thread(
                target=thread_main,
                args=(requests, self._replies, self._stopping, index, job),
                name=f"rushlight-data-{index}",
                daemon=True,
            )
            for index, requests in enumerate(self._requests)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, worker: int, message: Any) -> None:
        self._requests[worker].put(message)

    def receive(self, timeout: float | None) -> Any:
        try:
            worker, reply = self._replies.get(timeout=timeout)
        except queue.Empty:
            return None
        if reply is None:
            raise RuntimeError(f"DataLoader worker thread {worker} exited unexpectedly")
        return worker, reply

    def close(self) -> None:
        # A thread cannot be interrupted; it sees the flag when it has finished its batch.
        self._stopping.set()
        for requests in self._requests:
            requests.put(None)
        deadline = time.monotonic() + _GRACE_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
