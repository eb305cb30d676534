"""How machines of a run find each other: at a store whose address all know ("c10d"), or with
numbers that they know ("static").
"""

from rushlight.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousHandlerCreator,
    RendezvousHandlerRegistry,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
    rendezvous_handler_registry,
)
from rushlight.distributed.elastic.rendezvous.registry import _register_default_handlers

_register_default_handlers()

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError",
    "RendezvousGracefulExitError", "RendezvousHandler", "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters", "RendezvousStateError",
    "RendezvousStoreInfo", "RendezvousTimeoutError", "rendezvous_handler_registry",
]  # fmt: skip
