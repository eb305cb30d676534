"""Ports for the meeting of ranks."""

from __future__ import annotations

import socket
from contextlib import closing

__all__ = ["get_free_port", "get_socket_with_port"]


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
