"""How machines of a run find each other."""

from __future__ import annotations

import abc
import dataclasses
import socket
from collections.abc import Callable
from typing import Any, ClassVar

from rushlight.distributed.elastic.utils.distributed import get_free_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.distributed import Store


class RendezvousError(Exception):
    """Machines do not meet."""


class RendezvousClosedError(RendezvousError):
    """The run has ended."""


class RendezvousTimeoutError(RendezvousError):
    """Not enough machines came in time."""


class RendezvousConnectionError(RendezvousError):
    """The place where they meet cannot be reached."""


class RendezvousStateError(RendezvousError):
    """What is written there cannot be read."""


class RendezvousGracefulExitError(RendezvousError):
    """The run goes on without this machine, which is no failure."""


@dataclasses.dataclass
class RendezvousStoreInfo:
    """Where workers find a store.

    Args:
        master_addr: its host.
        master_port: its port.
    """

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(
        rank: int, store: Store, local_addr: str | None, server_port: int | None = None
    ) -> RendezvousStoreInfo:
        """What machine 0 tells the others.

        Args:
            rank: this machine.
            store: where it is told.
            local_addr: a name of this machine; its own by default.
            server_port: the port, if there is one already.
        """
        keys = RendezvousStoreInfo.MASTER_ADDR_KEY, RendezvousStoreInfo.MASTER_PORT_KEY
        if rank == 0:
            store.set(keys[0], local_addr or socket.getfqdn())
            store.set(keys[1], str(server_port or get_free_port()))
        host, port = (store.get(key).decode() for key in keys)
        return RendezvousStoreInfo(host, int(port))


class RendezvousInfo:
    """What a machine knows when all have met.

    Args:
        store: for what agents tell each other.
        rank: this machine.
        world_size: how many there are.
        bootstrap_store_info: where workers find a store.
    """

    def __init__(
        self, store: Store, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo
    ) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._bootstrap_store_info = bootstrap_store_info

    @property
    def store(self) -> Store:
        """For what agents tell each other."""
        return self._store

    @property
    def rank(self) -> int:
        """This machine."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many machines there are."""
        return self._world_size

    @property
    def bootstrap_store_info(self) -> RendezvousStoreInfo | None:
        """Where workers find a store."""
        return self._bootstrap_store_info


class RendezvousHandler(abc.ABC):
    """How a machine finds the others."""

    @abc.abstractmethod
    def get_backend(self) -> str:
        """The name of the way."""

    @property
    def use_agent_store(self) -> bool:
        """Does `bootstrap_store_info` name a store that is there already?"""
        return False

    @abc.abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until enough machines are there.

        Raises:
            RendezvousClosedError: the run has ended.
            RendezvousTimeoutError: not enough came.
        """

    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Has the run ended?"""

    @abc.abstractmethod
    def set_closed(self) -> None:
        """End the run: nobody meets any more."""

    @abc.abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many machines wait to be let in."""

    @abc.abstractmethod
    def get_run_id(self) -> str:
        """The run's name."""

    @abc.abstractmethod
    def shutdown(self) -> bool:
        """Let go of everything: did that work?"""


_YES = ("1", "true", "t", "yes", "y")
_NO = ("0", "false", "f", "no", "n")


class RendezvousParameters:
    """What a handler is made of.

    Args:
        backend: the way: "c10d" or "static".
        endpoint: where machines meet, as HOST:PORT.
        run_id: the run's name.
        min_nodes, max_nodes: how many machines.
        local_addr: a name of this machine.
        kwargs: what else the way wants.
    """

    backend: str
    endpoint: str
    run_id: str
    min_nodes: int
    max_nodes: int
    local_addr: str | None
    config: dict[str, Any]

    def __init__(
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if not 1 <= min_nodes <= max_nodes:
            raise ValueError(
                f"RendezvousParameters: expected 1 <= min_nodes <= max_nodes, got min_nodes "
                f"{min_nodes} and max_nodes {max_nodes}"
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr = min_nodes, max_nodes, local_addr
        self.config = kwargs

    def get(self, key: str, default: Any = None) -> Any:
        """What the way wants, or a default."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """The same as a bool."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).lower()
        if isinstance(value, (int, str)) and word in _YES + _NO:
            return word in _YES
        raise ValueError(
            f"The rendezvous configuration option '{key}' does not represent a valid boolean "
            f"value: {value!r}"
        )

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """The same as an int."""
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except ValueError as error:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid integer "
                f"value: {value!r}"
            ) from error


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """The ways in which machines can find each other, by name."""

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Add a way.

        Args:
            backend: its name.
            creator: makes a handler of parameters.
        """
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        known = self._creators.setdefault(backend, creator)
        if known is not creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it "
                f"is already registered with '{known}'."
            )

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """Make the handler that parameters ask for."""
        if params.backend not in self._creators:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered: there are "
                f"{sorted(self._creators)}"
            )
        handler = self._creators[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{handler.get_backend()}' does not match the requested "
                f"backend '{params.backend}'."
            )
        return handler


rendezvous_handler_registry: RendezvousHandlerRegistry = RendezvousHandlerRegistry()

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError",
    "RendezvousGracefulExitError", "RendezvousHandler", "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters", "RendezvousStateError",
    "RendezvousStoreInfo", "RendezvousTimeoutError", "rendezvous_handler_registry",
]  # fmt: skip
