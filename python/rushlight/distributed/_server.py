"""The server of a TCPStore: one thread that keeps the table, seats the members of worlds, and plays
the process manager of MPI (PMI-1) for them, all at one port.
"""

from __future__ import annotations

import errno
import hmac
import math
import os
import selectors
import socket
import struct
import sys
import threading
import time

from rushlight.distributed import _wire
from rushlight.distributed._errors import DistNetworkError
from rushlight.distributed._table import Request, Table
from rushlight.distributed._world_server import Worlds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

# Raised when a client sends what is none of the protocol.
MALFORMED = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError,
             struct.error)  # fmt: skip
_LONGEST_SLEEP = 3600.0  # seconds; a selector takes no more than 25 days
_LARGEST_FIRST_FRAME = 1 << 10  # of a client that has not shown yet that it knows the secret


class Connection:
    """One client: its socket, what came and was not yet understood, what was not yet sent."""

    def __init__(self, server: Any, connection: Any) -> None:
        self.server = server
        self.socket = connection
        self.received = bytearray()
        self.unsent = bytearray()
        self.understand = self._understand_first
        self.nonce = None
        self.known = False  # it has shown that it knows the secret
        self.seat = None  # of a world, as (world, rank): MPI's connection
        self.member = None  # of a world, as (world, rank)
        self.waiting = []
        self.closed = False

    def read(self) -> None:
        """Take in what has come and do what is asked."""
        try:
            part = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self.close()
            return
        self.received += part
        while not self.closed and self.understand():
            pass

    def send(self, data: Any) -> None:
        """Send bytes, now or when the client reads again."""
        self.unsent += data
        self.flush()

    def flush(self) -> None:
        """Send what can be sent now."""
        while self.unsent and not self.closed:
            try:
                sent = self.socket.send(memoryview(self.unsent)[: 1 << 18])
            except BlockingIOError:
                break
            except OSError:
                self.close()
                return
            del self.unsent[:sent]
        self.server.watch(self)

    def close(self) -> None:
        """End the connection, and tell the world whose member it was."""
        if self.closed:
            return
        self.closed = True
        self.server.forget(self)
        self.socket.close()
        if self.member is not None:
            world, rank = self.member
            world.lost(rank)

    def _understand_first(self):
        if len(self.received) < 4:
            return False
        if bytes(self.received[:4]) == _wire.PMI_BEGINNING:
            self.understand = self._understand_line
        else:
            self.understand = self._understand_frame
        return True

    def _understand_line(self):
        line, newline, rest = bytes(self.received).partition(b"\n")
        if not newline:
            if len(self.received) > 1 << 16:
                self.close()
            return False
        self.received = bytearray(rest)
        try:
            self.server.worlds.process_manager(self, line.decode(errors="replace"))
        except MALFORMED:
            self.close()
        return True

    def _understand_frame(self):
        if len(self.received) < 4:
            return False
        (length,) = struct.unpack_from(">I", self.received)
        if not 0 < length <= (_wire.LARGEST_FRAME if self.known else _LARGEST_FIRST_FRAME):
            self.close()
            return False
        if len(self.received) < 4 + length:
            return False
        body = bytes(self.received[4 : 4 + length])
        del self.received[: 4 + length]
        try:
            self._obey(*_wire.fields_of(body))
        except MALFORMED as error:
            self.send(_wire.frame(_wire.REFUSED, [str(error).encode()]))
        return True

    def _obey(self, code, fields):
        if self.nonce is None:
            if code != _wire.HELLO or fields != [_wire.GREETING]:
                self.close()
                return
            self.nonce = os.urandom(16) if _wire.secret() else b""
            self.known = not self.nonce
            self.send(_wire.frame(_wire.OK, [self.nonce]))
        elif not self.known:
            self.known = code == _wire.AUTHENTICATE and hmac.compare_digest(
                fields[0], _wire.proof(self.nonce)
            )
            if self.known:
                self.send(_wire.frame(_wire.OK))
            else:
                self.send(_wire.frame(_wire.REFUSED, [b"the secret is another one"]))
                self.close()
        elif code == _wire.MESSAGE:
            world, rank = self.member
            world.message(rank, fields[0])
        elif code == Request.OPEN_WORLD:
            self.send(_wire.frame(_wire.OK, self.server.worlds.open(*fields)))
        elif code == Request.JOIN_WORLD:
            self.server.worlds.join(self, *fields)
        else:
            (timeout,) = struct.unpack(">d", fields[0])
            if math.isnan(timeout):
                raise ValueError("a time-out that is no number")
            self.server.answer(self, Request(code), fields[1:], timeout)


class StoreServer:
    """Listens at a port until it is closed.

    Args:
        host: the name or address by which clients reach it; it listens there alone, so that a store
            at a loopback address cannot be reached from other machines.
        port: the port; 0 for any that is free.
        listen_fd: a socket that has an address already.

    Raises:
        DistNetworkError: the port is taken, or the host is not this machine.
    """

    def __init__(self, host: Any, port: Any, listen_fd: Any = None) -> None:
        self.table = Table()
        self._waiting = []  # (deadline, connection, request, fields)
        self._socket = self._listen(host, port, listen_fd)
        self.port = self._socket.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ, None)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)
        self.worlds = Worlds()
        self._connections = set()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="rushlight store", daemon=True)
        self._thread.start()

    @staticmethod
    def _listen(host, port, listen_fd):
        if sys.platform == "emscripten":
            raise DistNetworkError("TCPStore: this system has no sockets to listen on")
        if listen_fd is not None:
            listening = socket.socket(fileno=listen_fd)
            listening.listen(2048)
            listening.setblocking(False)
            return listening
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind, protocol)
        except OSError as error:
            raise DistNetworkError(f"TCPStore: host {host!r}: {error}") from None
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(2048)
        except OSError as error:
            listening.close()
            raise DistNetworkError(
                "The server socket has failed to listen on any local network address. port: "
                f"{port}, name: {errno.errorcode.get(error.errno)}, message: {error.strerror}: "
                f"TCPStore at {host}:{port}"
            ) from None
        listening.setblocking(False)
        return listening

    def close(self) -> None:
        """Stop listening and end all connections."""
        if not self._closing:
            self._closing = True
            self._wake_writer.send(b".")
            self._thread.join()

    def forget_after_fork(self) -> None:
        """In a forked process: close the copies of the sockets."""
        for connection in self._connections:
            connection.socket.close()
        self._socket.close()

    def watch(self, connection: Any) -> None:
        """Wait for what the connection is waiting for."""
        if not connection.closed:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
            if self._selector.get_key(connection.socket).events != events:
                self._selector.modify(connection.socket, events, connection)

    def forget(self, connection: Any) -> None:
        """The connection has ended."""
        self._selector.unregister(connection.socket)
        self._connections.discard(connection)
        self._waiting = [entry for entry in self._waiting if entry[1] is not connection]

    def answer(self, connection: Any, request: Any, fields: Any, timeout: timedelta | None) -> None:
        """Reply to a request, now or when its keys are there or its time is up."""
        reply = self.table.execute(request, fields)
        if reply is not None:
            connection.send(_wire.frame(_wire.OK, reply))
            if request not in (Request.CHECK, Request.NUM_KEYS, Request.GET):
                self._answer_waiting()
        elif timeout <= 0:
            connection.send(_wire.frame(_wire.TIMED_OUT))
        else:
            deadline = time.monotonic() + timeout
            self._waiting.append((deadline, connection, request, fields))

    def _answer_waiting(self):
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            _, connection, request, fields = entry
            reply = None if connection.closed else self.table.execute(request, fields)
            if connection.closed:
                continue
            if reply is None:
                self._waiting.append(entry)
            else:
                connection.send(_wire.frame(_wire.OK, reply))

    def _end_of_wait(self):
        now = time.monotonic()
        late = [entry for entry in self._waiting if entry[0] <= now]
        self._waiting = [entry for entry in self._waiting if entry[0] > now]
        for _, connection, _, _ in late:
            connection.send(_wire.frame(_wire.TIMED_OUT))
        self.worlds.look_at_clock(now)
        deadlines = [entry[0] for entry in self._waiting] + self.worlds.deadlines()
        return min(max(0.0, min(deadlines) - now), _LONGEST_SLEEP) if deadlines else None

    def _run(self):
        running = True
        while running:
            for key, events in self._selector.select(self._end_of_wait()):
                if key.fileobj is self._socket:
                    self._accept()
                elif key.fileobj is self._wake_reader:
                    running = False  # `close` has sent its byte: the writer is not needed any more
                else:
                    if events & selectors.EVENT_WRITE:
                        key.data.flush()
                    if events & selectors.EVENT_READ and not key.data.closed:
                        key.data.read()
        for connection in list(self._connections):
            connection.member = None
            connection.close()
        for thing in (self._selector, self._socket, self._wake_reader, self._wake_writer):
            thing.close()

    def _accept(self):
        try:
            accepted, _ = self._socket.accept()
        except OSError:
            return  # the client has gone again
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self, accepted)
        self._connections.add(connection)
        self._selector.register(accepted, selectors.EVENT_READ, connection)
