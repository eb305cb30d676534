"""Handlers by the names of the ways in which machines find each other."""

from __future__ import annotations

import importlib.metadata

from rushlight.distributed.elastic.rendezvous import (
    c10d_rendezvous_backend,
    dynamic_rendezvous,
    etcd_rendezvous,
    static_tcp_rendezvous,
)
from rushlight.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousParameters,
    rendezvous_handler_registry,
)


def _by_store(params):
    backend, store = c10d_rendezvous_backend.create_backend(params)
    return dynamic_rendezvous.create_handler(store, backend, params)


_OURS = {
    "c10d": _by_store,
    "static": static_tcp_rendezvous.create_rdzv_handler,
    "etcd": etcd_rendezvous.create_rdzv_handler,
    "etcd-v2": etcd_rendezvous.create_rdzv_handler,
}


def _register_default_handlers() -> None:
    for name, creator in _OURS.items():
        rendezvous_handler_registry.register(name, creator)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler that parameters ask for: of "c10d", "static", one that the program has registered
    with `rendezvous_handler_registry`, or one of an installed package (entry points of the group
    `torchrun.handlers`).
    """
    known = rendezvous_handler_registry._creators
    if params.backend not in known:
        for entry in importlib.metadata.entry_points(group="torchrun.handlers"):
            if entry.name == params.backend:
                rendezvous_handler_registry.register(entry.name, entry.load()())
    return rendezvous_handler_registry.create_handler(params)


__all__ = ["get_rendezvous_handler"]
