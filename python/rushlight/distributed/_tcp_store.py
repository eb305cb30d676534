"""The store that one process serves to the others over TCP."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time

from rushlight._set_module import set_module
from rushlight.distributed import _wire
from rushlight.distributed._errors import DistNetworkError, DistStoreError
from rushlight.distributed._server import StoreServer
from rushlight.distributed._stores import DEFAULT_TIMEOUT, Store, seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

_SLACK_SECONDS = 5.0  # for a reply after the time-out that the server keeps
_servers = {}  # (host, port) -> the server in this process


def connect(host: Any, port: Any, seconds: Any) -> Any:
    """A socket to a store's server that has shown each other the secret, if there is one."""
    deadline, pause, problem = time.monotonic() + seconds, 0.01, None
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise DistNetworkError(
                f"The client socket has timed out after {1000 * seconds:.0f}ms while trying to "
                f"connect to ({host}, {port}): TCPStore: {problem}"
            )
        try:
            connection = socket.create_connection((host, port), timeout=left)
            break
        except OSError as error:
            problem = error
            time.sleep(min(pause, max(left, 0.0)))
            pause = min(2 * pause, 0.5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(seconds + _SLACK_SECONDS)
    try:
        connection.sendall(_wire.frame(_wire.HELLO, [_wire.GREETING]))
        _, (nonce,) = _wire.read_frame(connection)
        if nonce:
            if not _wire.secret():
                raise ConnectionError("the store wants a secret, RUSHLIGHT_STORE_SECRET")
            connection.sendall(_wire.frame(_wire.AUTHENTICATE, [_wire.proof(nonce)]))
            code, fields = _wire.read_frame(connection)
            if code != _wire.OK:
                raise ConnectionError(b"".join(fields).decode(errors="replace"))
    except (OSError, ValueError) as error:
        connection.close()
        raise DistNetworkError(f"TCPStore: {host}:{port}: {error}") from None
    return connection


class TCPStore(Store):
    """A store that one process, the master, serves to the others over TCP.

    Args:
        host_name: the machine of the master; it listens at this address alone.
        port: its port; 0 lets the master choose one.
        world_size: how many processes use it; None if that is not fixed.
        is_master: this process serves it.
        timeout: a timedelta, for connecting and for `get` and `wait`.
        wait_for_workers: the master waits until `world_size` processes are connected.
        multi_tenant: share the server with other masters of this process at the same address.
        master_listen_fd: file descriptor of a socket that has an address already.
        use_libuv: accepted for programs that say True; there is one server.

    Raises:
        DistNetworkError: the server cannot be started, or reached in time.
        DistStoreError: the processes are not there in time.

    Example:
        >>> store = TCPStore("127.0.0.1", 0, 1, is_master=True)
        >>> store.set("key", "value")
        >>> store.get("key")
        b'value'
    """

    def __init__(
        self,
        host_name: Any,
        port: Any,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta | None = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: Any = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(use_libuv, bool):
            raise TypeError(f"TCPStore: use_libuv must be a bool, got {use_libuv!r}")
        self._use_libuv = use_libuv
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        if not is_master and not port:
            raise ValueError("TCPStore: a client must be told the port")
        self._timeout = timeout
        self._host, self._port = host_name, port
        self._server = self._serve(multi_tenant, master_listen_fd) if is_master else None
        self._lock, self._connection, self._process = threading.Lock(), None, None
        self._connect()
        if wait_for_workers and world_size is not None and world_size > 0:
            self._wait_for_workers(world_size, is_master)

    def _serve(self, multi_tenant, listen_fd):
        at = (self._host, self._port)
        server = _servers.get(at) if multi_tenant else None
        if server is None:
            server = StoreServer(*at, listen_fd)
            if multi_tenant:
                _servers[at] = server
        self._port = server.port
        return server

    def _connect(self):
        self._connection = connect(self._host, self._port, seconds_of(self._timeout))
        self._process = os.getpid()

    def _wait_for_workers(self, world_size, is_master):
        came = self.add("init/", 1)
        deadline = time.monotonic() + seconds_of(self._timeout)
        while is_master and came < world_size:
            if time.monotonic() > deadline:
                raise DistStoreError(
                    f"TCPStore: Timed out after {seconds_of(self._timeout):g} seconds waiting for "
                    f"clients. {came}/{world_size} clients joined."
                )
            time.sleep(0.01)
            came = self.add("init/", 0)

    @property
    def host(self) -> Any:
        """The machine of the master."""
        return self._host

    @property
    def port(self) -> Any:
        """The port of the master."""
        return self._port

    @property
    def libuvBackend(self) -> bool:
        """What was asked for by `use_libuv`: there is one kind of server."""
        return self._use_libuv

    def _execute(self, request, fields, timeout=None):
        head = struct.pack(">d", 0.0 if timeout is None else timeout)
        code, reply = self.request(request, [head, *fields], timeout or 0.0)
        if code == _wire.REFUSED:
            raise DistStoreError(f"TCPStore: {request.name.lower()}: {reply[0].decode()}")
        return None if code == _wire.TIMED_OUT else reply

    def request(self, request: Any, fields: Any, seconds: Any) -> Any:
        """Send a request and return the code and the fields of the reply."""
        with self._lock:
            if self._process != os.getpid():  # after a fork, the socket is the parent's
                self._connection.close()
                self._server = None
                self._connect()
            self._connection.settimeout(seconds + seconds_of(self._timeout) + _SLACK_SECONDS)
            try:
                self._connection.sendall(_wire.frame(request, fields))
                return _wire.read_frame(self._connection)
            except OSError as error:
                # What comes next might be the reply to this request.
                self._connection.close()
                raise DistNetworkError(
                    f"TCPStore: the connection to {self._host}:{self._port} failed in "
                    f"{request.name.lower()}: {error}"
                ) from None
            except BaseException:
                self._connection.close()
                self._connect()
                raise

    def clone(self) -> Any:
        """Another connection to the same store."""
        return TCPStore(
            self._host, self._port, timeout=self._timeout, wait_for_workers=False,
            use_libuv=self._use_libuv,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"TCPStore({self._host}:{self._port})"

    def close(self) -> None:
        """End the connection, and the server if it is this object's."""
        if self._connection is not None:
            self._connection.close()
        if self._server is not None and self._server not in _servers.values():
            self._server.close()
        self._server = None

    def __del__(self) -> None:
        if getattr(self, "_process", None) == os.getpid():
            self.close()


set_module("rushlight.distributed", TCPStore)
