"""Machines that may come and go meet by a state that a backend keeps for all of them.

The state says who takes part in the present round, and who waits for the next one. A round is
complete when all that may come have come, or as soon as nobody has come for a while after enough
have. A machine leaves its round by calling `next_rendezvous` again; when all have left, the next
round begins. Who takes part says from time to time that he is alive; who does not is dropped.
"""

from __future__ import annotations

import abc
import dataclasses
import datetime
import itertools
import json
import os
import socket
import threading
import time

from rushlight.distributed._stores import PrefixStore
from rushlight.distributed._tcp_store import TCPStore
from rushlight.distributed.elastic.events import NodeState, construct_and_record_rdzv_event
from rushlight.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed import Store

Token = object
_PAUSE = 0.1  # seconds between looks at the state
_numbers = itertools.count()


class RendezvousBackend(abc.ABC):
    """Keeps bytes that all machines see, and changes them for one at a time."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What it is called."""

    @abc.abstractmethod
    def get_state(self) -> tuple[bytes, Any] | None:
        """The bytes, and a token of this version of them; None if there are none yet."""

    @abc.abstractmethod
    def set_state(self, state: bytes, token: Any = None) -> tuple[bytes, Any, bool] | None:
        """Change the bytes, if they are still those of the token.

        Args:
            state: the new bytes.
            token: of the version that is to be replaced; None if there was none.

        Returns:
            The bytes that are there now, their token, and whether they were changed.
        """


class RendezvousTimeout:
    """How long to wait.

    Args:
        join: until enough machines have come; 600 s by default.
        last_call: for more of them; 30 s.
        close: until all know that the run has ended; 30 s.
        heartbeat: until a sign of life has been given; 5 s.
    """

    def __init__(
        self,
        join: datetime.timedelta | None = None,
        last_call: datetime.timedelta | None = None,
        close: datetime.timedelta | None = None,
        heartbeat: datetime.timedelta | None = None,
    ) -> None:
        for name, value, seconds in (
            ("join", join, 600),
            ("last_call", last_call, 30),
            ("close", close, 30),
            ("heartbeat", heartbeat, 5),
        ):
            value = datetime.timedelta(seconds=seconds) if value is None else value
            if value <= datetime.timedelta(0):
                raise ValueError(f"The {name} timeout ({value}) must be positive.")
            setattr(self, f"_{name}", value)

    join: datetime.timedelta = property(lambda self: self._join)
    last_call: datetime.timedelta = property(lambda self: self._last_call)
    close: datetime.timedelta = property(lambda self: self._close)
    heartbeat: datetime.timedelta = property(lambda self: self._heartbeat)


@dataclasses.dataclass(frozen=True)
class RendezvousSettings:
    """How machines meet.

    Args:
        run_id: the run's name.
        min_nodes, max_nodes: how many machines.
        timeout: how long to wait.
        keep_alive_interval: how often to give a sign of life.
        keep_alive_max_attempt: after how many missing ones a machine is dropped.
    """

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: datetime.timedelta
    keep_alive_max_attempt: int


@dataclasses.dataclass
class _State:
    """What all machines know."""

    round: int = 0
    complete: bool = False
    closed: bool = False
    deadline: float | None = None  # when the round is complete though more could come
    participants: list[str] = dataclasses.field(default_factory=list)
    waiting: list[str] = dataclasses.field(default_factory=list)
    seen: dict[str, float] = dataclasses.field(default_factory=dict)  # the last signs of life

    def remove(self, node: str) -> None:
        """A machine leaves; when the last one has, the next round begins."""
        self.waiting = [one for one in self.waiting if one != node]
        if node in self.participants:
            self.participants.remove(node)
            self.deadline = None
        if self.complete and not self.participants:
            self.round, self.complete = self.round + 1, False

    def drop_silent(self, since: float) -> None:
        """Those of whom there was no sign of life since then leave."""
        for node, last in list(self.seen.items()):
            if last < since:
                del self.seen[node]
                self.remove(node)


class DynamicRendezvousHandler(RendezvousHandler):
    """Meets machines that may come and go.

    Args:
        node: this machine's name among them.
        address: a name by which the others reach it.
        settings: how they meet.
        backend: keeps what all know.
        store: for what agents tell each other.
    """

    def __init__(
        self, node: str, address: str, settings: RendezvousSettings, backend: RendezvousBackend,
        store: Store,
    ) -> None:  # fmt: skip
        if not settings.run_id:
            raise ValueError("The run id must be a non-empty string.")
        if not 1 <= settings.min_nodes <= settings.max_nodes:
            raise ValueError(
                f"DynamicRendezvousHandler: expected 1 <= min_nodes <= max_nodes, got "
                f"{settings.min_nodes} and {settings.max_nodes}"
            )
        self._node, self._address, self._settings = node, address, settings
        self._backend, self._store = backend, store
        self._stop, self._thread = threading.Event(), None
        self._server: TCPStore | None = None

    @classmethod
    def from_backend(
        cls,
        run_id: str,
        store: Store,
        backend: RendezvousBackend,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        timeout: RendezvousTimeout | None = None,
        keep_alive_interval: int = 5,
        keep_alive_max_attempt: int = 3,
    ) -> DynamicRendezvousHandler:
        """A handler of these settings; see RendezvousSettings.

        Args:
            run_id: the run's name.
            store: for what agents tell each other.
            backend: keeps what all know.
            min_nodes, max_nodes: how many machines.
            local_addr: a name of this machine.
            timeout: how long to wait.
            keep_alive_interval: how often to give a sign of life, in seconds.
            keep_alive_max_attempt: after how many missing ones a machine is dropped.
        """
        settings = RendezvousSettings(
            run_id, min_nodes, max_nodes, timeout or RendezvousTimeout(),
            datetime.timedelta(seconds=keep_alive_interval), keep_alive_max_attempt,
        )  # fmt: skip
        address = local_addr or socket.getfqdn()
        return cls(f"{address}_{os.getpid()}_{next(_numbers)}", address, settings, backend, store)

    @property
    def settings(self) -> RendezvousSettings:
        """How machines meet."""
        return self._settings

    def get_backend(self) -> str:
        """The backend's name."""
        return self._backend.name

    @property
    def use_agent_store(self) -> bool:
        """Machine 0 serves a store for workers, unless TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 1."""
        return os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0") != "1"

    # ------------------------------------------------------------------ state

    def _state(self):
        found = self._backend.get_state()
        return (_State(), None) if found is None else (_read(found[0]), found[1])

    def _change(self, change: Callable[[_State], Any]) -> Any:
        """Change what all know: `change` is called again if another machine was quicker."""
        while True:
            state, token = self._state()
            before = dataclasses.asdict(state)
            silent = self._settings.keep_alive_interval * self._settings.keep_alive_max_attempt
            state.drop_silent(time.time() - silent.total_seconds())
            result = change(state)
            if dataclasses.asdict(state) == before:
                return result
            written = self._backend.set_state(json.dumps(dataclasses.asdict(state)).encode(), token)
            if written is not None and written[2]:
                return result

    def _alive(self, state):
        if self._node in state.participants or self._node in state.waiting:
            state.seen[self._node] = time.time()

    # ---------------------------------------------------------------- meeting

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until enough machines are there."""
        self._end_heartbeats()
        join = self._settings.timeout.join.total_seconds()
        began = time.monotonic()
        self._change(lambda state: state.remove(self._node))
        while True:
            found = self._change(self._join)
            if found is not None:
                break
            if time.monotonic() > began + join:
                self._change(lambda state: state.remove(self._node))
                self._tell("the others did not come in time", NodeState.FAILED)
                raise RendezvousTimeoutError(
                    f"rendezvous {self._settings.run_id}: fewer than {self._settings.min_nodes} "
                    f"machines came within {join:g} s"
                )
            time.sleep(_PAUSE)
        self._begin_heartbeats()
        number, rank, size = found
        self._tell(f"machine {rank} of {size} in round {number}", NodeState.RUNNING, rank)
        store = PrefixStore(f"torch.rendezvous.{self._settings.run_id}.{number}", self._store)
        return RendezvousInfo(store, rank, size, self._store_of_workers(rank, store))

    def _join(self, state):
        """Take part: (round, rank, size) once it is complete, else None."""
        settings, now = self._settings, time.time()
        if state.closed:
            raise RendezvousClosedError(f"rendezvous {settings.run_id} is closed")
        if state.complete and self._node in state.participants:
            self._alive(state)
            return state.round, state.participants.index(self._node), len(state.participants)
        if state.complete:
            if self._node not in state.waiting:
                state.waiting.append(self._node)
        elif self._node not in state.participants:
            state.waiting = [one for one in state.waiting if one != self._node]
            if len(state.participants) < settings.max_nodes:
                state.participants.append(self._node)
                if len(state.participants) >= settings.min_nodes:
                    state.deadline = now + settings.timeout.last_call.total_seconds()
        self._keep_alive_sometimes(state, now)
        is_full = len(state.participants) == settings.max_nodes
        is_late = state.deadline is not None and now >= state.deadline
        if not state.complete and (is_full or is_late):
            state.participants.sort()
            state.complete, state.deadline = True, None
        return None  # those who take part see it in the next look

    def _keep_alive_sometimes(self, state, now):
        interval = self._settings.keep_alive_interval.total_seconds()
        if now > state.seen.get(self._node, 0.0) + interval:
            self._alive(state)

    def _store_of_workers(self, rank, store):
        if not self.use_agent_store:
            return RendezvousStoreInfo.build(rank, store, self._address)
        if rank == 0 and self._server is None:
            self._server = TCPStore(self._address, 0, is_master=True, wait_for_workers=False)
        port = self._server.port if rank == 0 else None
        return RendezvousStoreInfo.build(rank, store, self._address, port)

    def _tell(self, message, state, rank=None):
        construct_and_record_rdzv_event(
            self._settings.run_id, message, state, name="next_rendezvous", rank=rank,
            hostname=self._address,
        )  # fmt: skip

    # --------------------------------------------------------- signs of life

    def _begin_heartbeats(self):
        self._stop = stop = threading.Event()

        def run():
            while not stop.wait(self._settings.keep_alive_interval.total_seconds()):
                self._change(self._alive)

        self._thread = threading.Thread(target=run, daemon=True, name="rushlight rendezvous")
        self._thread.start()

    def _end_heartbeats(self):
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._settings.timeout.heartbeat.total_seconds())
            self._thread = None

    # ------------------------------------------------------------------- end

    def is_closed(self) -> bool:
        """Has the run ended?"""
        return self._state()[0].closed

    def set_closed(self) -> None:
        """End the run."""

        def close(state):
            state.closed = True

        self._change(close)

    def num_nodes_waiting(self) -> int:
        """How many machines wait for the next round."""
        return len(self._state()[0].waiting)

    def get_run_id(self) -> str:
        """The run's name."""
        return self._settings.run_id

    def shutdown(self) -> bool:
        """End the run."""
        self._end_heartbeats()
        try:
            self.set_closed()
        except Exception as error:  # the store may have ended with another machine
            self._tell(f"closing failed: {error}", NodeState.FAILED)
            return False
        return True


def _read(data):
    try:
        return _State(**json.loads(data))
    except (TypeError, ValueError) as error:
        raise RendezvousStateError(f"rendezvous: the state cannot be read: {error}") from error


def create_handler(
    store: Store, backend: RendezvousBackend, params: RendezvousParameters
) -> DynamicRendezvousHandler:
    """A handler of parameters: `join_timeout`, `last_call_timeout`, `close_timeout` and
    `heartbeat_timeout` in seconds, `keep_alive_interval` and `keep_alive_max_attempt`.
    """

    def seconds(name):
        value = params.get_as_int(f"{name}_timeout")
        return None if value is None else datetime.timedelta(seconds=value)

    return DynamicRendezvousHandler.from_backend(
        params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr,
        RendezvousTimeout(*map(seconds, ("join", "last_call", "close", "heartbeat"))),
        params.get_as_int("keep_alive_interval", 5), params.get_as_int("keep_alive_max_attempt", 3),
    )  # fmt: skip


__all__ = [
    "DynamicRendezvousHandler", "RendezvousBackend", "RendezvousSettings", "RendezvousTimeout",
    "create_handler",
]  # fmt: skip
