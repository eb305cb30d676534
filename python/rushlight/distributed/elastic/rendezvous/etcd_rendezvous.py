"""Meetings at a server of etcd, which are refused: a TCPStore ("c10d") needs no such server."""

from __future__ import annotations

from rushlight import _absent

_WHY = "machines meet at a TCPStore: take the rendezvous backend c10d"

globals().update(
    _absent.refused(
        {
            "EtcdRendezvous": _WHY,
            "EtcdRendezvousHandler": _WHY,
            "EtcdRendezvousRetryImmediately": _WHY,
            "EtcdRendezvousRetryableFailure": _WHY,
            "create_rdzv_handler": _WHY,
        }
    )
)

__all__ = [  # noqa: F822
    "EtcdRendezvous", "EtcdRendezvousHandler", "EtcdRendezvousRetryImmediately",
    "EtcdRendezvousRetryableFailure", "create_rdzv_handler",
]  # fmt: skip
