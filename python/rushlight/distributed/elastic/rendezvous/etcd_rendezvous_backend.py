"""Meetings at a server of etcd, which are refused: a TCPStore ("c10d") needs no such server."""

from __future__ import annotations

from rushlight import _absent

_WHY = "machines meet at a TCPStore: take the rendezvous backend c10d"

globals().update(
    _absent.refused(
        {
            "EtcdRendezvousBackend": _WHY,
            "create_backend": _WHY,
        }
    )
)

__all__ = [  # noqa: F822
    "EtcdRendezvousBackend", "create_backend",
]  # fmt: skip
