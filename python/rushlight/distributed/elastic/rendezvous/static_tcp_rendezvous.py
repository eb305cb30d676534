"""Machines that know their numbers meet at a TCPStore."""

from __future__ import annotations

import datetime

from rushlight.distributed._stores import PrefixStore
from rushlight.distributed._tcp_store import TCPStore
from rushlight.distributed.elastic.rendezvous.api import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from rushlight.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

_SECONDS = 600


class StaticTCPRendezvous(RendezvousHandler):
    """Meets machines whose numbers are known.

    Args:
        master_addr, master_port: where machine 0 serves the store.
        rank: this machine.
        world_size: how many there are.
        run_id: the run's name.
        timeout: how long to wait, in seconds.
    """

    master_addr: str
    master_port: int
    rank: int
    world_size: int
    run_id: str
    timeout: datetime.timedelta

    def __init__(
        self, master_addr: str, master_port: int, rank: int, world_size: int, run_id: str,
        timeout: int,
    ) -> None:  # fmt: skip
        self.master_addr, self.master_port = master_addr, master_port
        self.rank, self.world_size, self.run_id = rank, world_size, run_id
        self.timeout = datetime.timedelta(seconds=timeout)
        self._store: TCPStore | None = None

    def get_backend(self) -> str:
        """ "static" """
        return "static"

    @property
    def use_agent_store(self) -> bool:
        """The store serves workers too."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until all machines are there."""
        if self._store is None:
            self._store = TCPStore(
                self.master_addr, self.master_port, self.world_size, self.rank == 0, self.timeout,
                multi_tenant=True,
            )  # fmt: skip
        where = RendezvousStoreInfo(self.master_addr, self.master_port)
        store = PrefixStore(self.run_id, self._store)
        return RendezvousInfo(store, self.rank, self.world_size, where)

    def is_closed(self) -> bool:
        """It never is."""
        return False

    def set_closed(self) -> None:
        """Changes nothing: machines that know their numbers meet once."""

    def num_nodes_waiting(self) -> int:
        """None is let in later."""
        return 0

    def get_run_id(self) -> str:
        """The run's name."""
        return self.run_id

    def shutdown(self) -> bool:
        """There is nothing to let go of."""
        return True


def create_rdzv_handler(params: RendezvousParameters) -> StaticTCPRendezvous:
    """A handler of parameters, of which `rank` is this machine's number."""
    if "rank" not in params.config:
        raise ValueError("static rendezvous: rank is missing; --node-rank says it")
    if not params.endpoint.strip():
        raise ValueError(
            "static rendezvous: the endpoint is missing; --master-addr and --master-port say it"
        )
    host, port = parse_rendezvous_endpoint(params.endpoint, -1)
    if port == -1:
        raise ValueError(f"static rendezvous: the endpoint {params.endpoint!r} has no port")
    return StaticTCPRendezvous(
        host, port, int(params.config["rank"]), params.max_nodes, params.run_id,
        params.get_as_int("timeout", _SECONDS),
    )  # fmt: skip


__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]
