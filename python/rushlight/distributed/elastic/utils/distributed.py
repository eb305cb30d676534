"""Ports and stores for the meeting of ranks."""

from __future__ import annotations

import datetime
import socket
from contextlib import closing

from rushlight.distributed._errors import DistNetworkError
from rushlight.distributed._tcp_store import TCPStore

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_socket_with_port() -> socket.socket:
    """Return a socket that listens on a free port of this machine.

    Raises:
        RuntimeError: no address of this machine can be bound.
    """
    for family, kind, protocol, _, _ in socket.getaddrinfo(
        "localhost", None, socket.AF_UNSPEC, socket.SOCK_STREAM
    ):
        listener = socket.socket(family, kind, protocol)
        try:
            listener.bind(("localhost", 0))
            listener.listen(0)
        except OSError:
            listener.close()
        else:
            return listener
    raise RuntimeError("no address of localhost can be bound")


def get_free_port() -> int:
    """Return the number of a port that was free a moment ago."""
    with closing(get_socket_with_port()) as listener:
        return listener.getsockname()[1]


def create_c10d_store(
    is_server: bool,
    server_addr: str,
    server_port: int = -1,
    world_size: int = 1,
    timeout: float = 600,
    wait_for_workers: bool = True,
    retries: int = 3,
    use_libuv: bool | None = None,
) -> TCPStore:
    """A TCPStore at which all processes are.

    Args:
        is_server: serve it in this process.
        server_addr: its host.
        server_port: its port; -1 for any that is free, in a world of one.
        world_size: how many processes there are.
        timeout: how long operations may wait, in seconds.
        wait_for_workers: wait until all processes are there.
        retries: how often to try another free port.
        use_libuv: accepted; there is one kind of server.
    """
    from rushlight.distributed.elastic.utils.store import barrier

    if server_port == -1 and world_size > 1:
        raise ValueError(
            f"server_port must be specified when world_size > 1, got server_port={server_port}, "
            f"world_size={world_size}"
        )
    for left in reversed(range(max(1, retries))):
        port = get_free_port() if server_port == -1 else server_port
        try:
            store = TCPStore(
                server_addr, port, world_size, is_server,
                datetime.timedelta(seconds=timeout), wait_for_workers=False,
                use_libuv=True if use_libuv is None else use_libuv,
            )  # fmt: skip
            break
        except DistNetworkError as error:
            if server_port != -1 or not left:
                raise RuntimeError(f"on {server_addr}, port: {port}: {error}") from error
    if wait_for_workers:
        barrier(store, world_size, "rushlight/store", timeout)
    return store
