"""Meetings at a server of etcd, which are refused: a TCPStore ("c10d") needs no such server."""

from __future__ import annotations

from rushlight import _absent

_WHY = "machines meet at a TCPStore: take the rendezvous backend c10d"

globals().update(
    _absent.refused(
        {
            "EtcdServer": _WHY,
            "find_free_port": _WHY,
            "stop_etcd": _WHY,
        }
    )
)

__all__ = [  # noqa: F822
    "EtcdServer", "find_free_port", "stop_etcd",
]  # fmt: skip
