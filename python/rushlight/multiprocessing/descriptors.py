"""File descriptors on their way to other processes.

What is pickled is an `Offer`, an address and a number; the receiver fetches the descriptor from
the sender, which has a thread for that. A process that ends waits a little for its offers to be
fetched: Python's own `resource_sharer` does not, and the last results of a worker are lost.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import socket
import struct
import threading
import time
from multiprocessing import context, reduction, util

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# How long a process that ends waits for what it has sent to be received.
_LINGER_SECONDS = 5.0
_NUMBER = struct.Struct("<Q")
_CREDENTIALS = struct.Struct("3i")  # process, user and group at the other end of a socket


def carrier(descriptor: int) -> Any:
    """Something that can be pickled, whose detach() gives the receiver a descriptor of the file."""
    process = context.get_spawning_popen()
    # A process that is being started can be handed descriptors; by a forkserver at most 256.
    if process is not None and process.method != "forkserver":
        return reduction.DupFd(descriptor)
    return _server.offer(descriptor)


class Offer:
    """A descriptor that its receiver, one process, can fetch once."""

    def __init__(self, address: bytes, number: int) -> None:
        self._address, self._number = address, number

    def detach(self) -> int:
        """Fetch the descriptor, which is then the caller's."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(self._address)
                connection.sendall(_NUMBER.pack(self._number))
                descriptors = socket.recv_fds(connection, 1, 1)[1]
            except OSError as error:
                raise RuntimeError(
                    "the process that sent this tensor ended before it was received"
                ) from error
        if not descriptors:
            raise RuntimeError("the memory of this tensor has been received already, or never sent")
        return descriptors[0]


class _Server:
    """Gives descriptors to those that come for them, from a thread that the first offer starts."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._leave_to_parent)
        # Forked processes forget what they were to do at their end when they begin.
        util.register_after_fork(self, _Server._linger_at_end)
        self._linger_at_end()

    def _reset(self):
        self._lock = threading.Lock()
        self._offers = {}
        self._count = 0
        self._listener = None

    def _leave_to_parent(self):
        for descriptor in self._offers.values():
            os.close(descriptor)
        if self._listener is not None:
            self._listener.close()
        self._reset()

    def offer(self, descriptor: int) -> Offer:
        with self._lock:
            if self._listener is None:
                self._start()
            self._count += 1
            self._offers[self._count] = os.dup(descriptor)
            return Offer(self._listener.getsockname(), self._count)

    def _start(self):
        # A name that is no file: it ends with this process.
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0rushlight-{secrets.token_hex(16)}")
        listener.listen(128)
        self._listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def _linger_at_end(self):
        util.Finalize(None, self._linger, exitpriority=-10)  # queues end their threads at -5

    def _serve(self, listener):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            with listener.accept()[0] as connection:
                try:
                    self._answer(connection)
                except ConnectionError:
                    continue  # the receiver has gone

    def _answer(self, connection):
        size = _CREDENTIALS.size
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        number = connection.recv(_NUMBER.size)
        if _CREDENTIALS.unpack(peer)[1] != os.geteuid() or len(number) != _NUMBER.size:
            return
        (number,) = _NUMBER.unpack(number)
        descriptor = self._offers.get(number)
        if descriptor is not None:
            try:
                socket.send_fds(connection, [b"."], [descriptor])
            finally:
                # Only now: a process that ends waits for its offers alone.
                with self._lock:
                    del self._offers[number]
                os.close(descriptor)

    def _linger(self):
        if multiprocessing.parent_process() is None:
            return  # its processes have ended before
        parent, deadline = os.getppid(), time.monotonic() + _LINGER_SECONDS
        while self._offers and os.getppid() == parent and time.monotonic() < deadline:
            time.sleep(0.002)


_server = _Server()
