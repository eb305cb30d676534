"""An agent starts the workers of its machine, and starts them again when one fails."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import json
import logging
import os
import signal
import socket
import time
import traceback

from rushlight._ignored import warn_program as _warn_program
from rushlight.distributed._errors import DistError
from rushlight.distributed.elastic.events import Event, EventSource, record
from rushlight.distributed.elastic.metrics import prof, put_metric
from rushlight.distributed.elastic.multiprocessing import ProcessFailure
from rushlight.distributed.elastic.multiprocessing.api import SignalException
from rushlight.distributed.elastic.rendezvous import (
    RendezvousGracefulExitError,
    RendezvousHandler,
)
from rushlight.distributed.elastic.utils.store import barrier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight.distributed import Store

DEFAULT_ROLE = "default"
_logger = logging.getLogger(__name__)


@dataclasses.dataclass
class WorkerSpec:
    """What workers are to be.

    Args:
        role: a name that they see.
        local_world_size: how many on this machine.
        rdzv_handler: how machines meet.
        fn: the older name of `entrypoint`.
        entrypoint: a function or a command.
        args: its arguments; `${local_rank}` in a word is the worker's number.
        max_restarts: how often they are started again.
        monitor_interval: seconds between looks at them.
        master_port, master_addr: where their store is; else machines agree on that.
        local_addr: a name of this machine.
        event_log_handler: where events go.
        numa_options: None.
        duplicate_stdout_filters, duplicate_stderr_filters: lines of shown streams that contain one
            of these go to a file too.
        virtual_local_rank: False.
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: tuple[Any, ...] = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False

    def __post_init__(self) -> None:
        if self.local_world_size <= 0 or self.monitor_interval <= 0:
            raise AssertionError(
                f"WorkerSpec: expected positive local_world_size and monitor_interval, got "
                f"{self.local_world_size} and {self.monitor_interval}"
            )
        if self.fn is not None:
            _warn_program("WorkerSpec: fn is the older name of entrypoint", DeprecationWarning)
            self.entrypoint = self.fn
        if not self.entrypoint:
            raise AssertionError("WorkerSpec: entrypoint is missing")
        if self.numa_options is not None or self.virtual_local_rank:
            raise NotImplementedError(
                "WorkerSpec: numa_options and virtual_local_rank are not supported"
            )

    def get_entrypoint_name(self) -> str:
        """The name of the function or command."""
        if isinstance(self.entrypoint, str):
            return os.path.basename(self.entrypoint)
        return self.entrypoint.__qualname__


class Worker:
    """A worker.

    Args:
        local_rank: its number on its machine.
        global_rank: its rank.
        role_rank: its rank among those of its role.
        world_size: how many workers there are.
        role_world_size: how many of its role.
    """

    __slots__ = ["id", "local_rank", "global_rank", "role_rank", "world_size", "role_world_size"]
    local_rank: int
    global_rank: int
    role_rank: int
    world_size: int
    role_world_size: int

    def __init__(
        self, local_rank: int, global_rank: int = -1, role_rank: int = -1, world_size: int = -1,
        role_world_size: int = -1,
    ) -> None:  # fmt: skip
        self.id: Any = None
        self.local_rank, self.global_rank, self.role_rank = local_rank, global_rank, role_rank
        self.world_size, self.role_world_size = world_size, role_world_size

    def __repr__(self) -> str:
        return ",".join(f"{name}={getattr(self, name)}" for name in self.__slots__[1:])


class WorkerState(str, enum.Enum):
    """The state of a machine's workers."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Do they run?"""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of a machine.

    Args:
        spec: what they are.
    """

    __slots__ = [
        "spec", "workers", "store", "group_rank", "group_world_size", "state", "master_addr",
        "master_port",
    ]  # fmt: skip
    spec: WorkerSpec
    workers: list[Worker]
    group_rank: int | None
    group_world_size: int | None
    state: WorkerState
    master_addr: str | None
    master_port: int | None

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.workers = [Worker(i) for i in range(spec.local_world_size)]
        self.store: Store | None = None
        self.group_rank = self.group_world_size = self.master_addr = self.master_port = None
        self.state = WorkerState.INIT


@dataclasses.dataclass
class RunResult:
    """How the workers of a machine have ended, by their ranks.

    Args:
        state: SUCCEEDED if all have ended well.
        return_values: what functions have returned.
        failures: who has failed, and how.
    """

    state: WorkerState
    return_values: dict[int, Any] = dataclasses.field(default_factory=dict)
    failures: dict[int, ProcessFailure] = dataclasses.field(default_factory=dict)

    def is_failed(self) -> bool:
        """Has one failed?"""
        return self.state == WorkerState.FAILED


class ElasticAgent(abc.ABC):
    """Starts workers and looks after them."""

    @abc.abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run them until they have ended well or failed once too often."""

    @abc.abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The workers."""


class SimpleElasticAgent(ElasticAgent):
    """An agent of workers of one role; how they are started is a subclass's business.

    Args:
        spec: what they are.
        exit_barrier_timeout: how long to wait for other machines at the end, in seconds.
        shutdown_timeout: after how many seconds workers that were told to end are killed.
    """

    def __init__(
        self, spec: WorkerSpec, exit_barrier_timeout: float = 300, shutdown_timeout: int = 30
    ) -> None:
        self._worker_group = WorkerGroup(spec)
        self._remaining_restarts = spec.max_restarts
        self._store: Store | None = None
        self._exit_barrier_timeout = exit_barrier_timeout
        self._shutdown_timeout = shutdown_timeout
        self._total_execution_time = 0

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The workers."""
        return self._worker_group

    @abc.abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start them: number on this machine -> id."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """End them."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """How they are."""

    @abc.abstractmethod
    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        """End them, and all else."""

    # ---------------------------------------------------------------- rounds

    @prof
    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Meet the other machines, and number the workers."""
        spec = worker_group.spec
        with self.record_duration("RENDEZVOUS"):
            info = spec.rdzv_handler.next_rendezvous()
        self._store = worker_group.store = info.store
        worker_group.group_rank, worker_group.group_world_size = info.rank, info.world_size
        where = info.bootstrap_store_info
        worker_group.master_addr = spec.master_addr or where.master_addr
        worker_group.master_port = spec.master_port or where.master_port
        with self.record_duration("ASSIGN_WORKER_RANKS"):
            worker_group.workers = self._assign_worker_ranks(
                info.store, info.rank, info.world_size, spec
            )

    @prof
    def _assign_worker_ranks(
        self, store: Store, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[Worker]:
        """The workers of this machine: ranks go on from one machine to the next, and those of a
        role likewise.
        """
        key = "torchelastic/role_info/"
        store.set(f"{key}{group_rank}", json.dumps([spec.role, spec.local_world_size]))
        told = store.multi_get([f"{key}{i}" for i in range(group_world_size)])
        machines = [json.loads(one) for one in told]

        def count(of, role=None):
            return sum(n for name, n in of if role in (None, name))

        before = machines[:group_rank]
        return [
            Worker(
                i,
                count(before) + i,
                count(before, spec.role) + i,
                count(machines),
                count(machines, spec.role),
            )
            for i in range(spec.local_world_size)
        ]

    @prof
    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        """Meet the other machines and start the workers."""
        self._rendezvous(worker_group)
        for number, identity in self._start_workers(worker_group).items():
            worker = worker_group.workers[number]
            worker.id = identity
            self._tell("START", EventSource.WORKER, worker)
        worker_group.state = WorkerState.HEALTHY

    @prof
    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """End the workers and start others."""
        self._stop_workers(worker_group)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    @prof
    def run(self, role: str = DEFAULT_ROLE) -> RunResult | None:
        """Run the workers until they have ended well or failed once too often; None if the run goes
        on without this machine.
        """
        began, death = time.monotonic(), signal.SIGTERM
        try:
            result = self._invoke_run(role)
            self._total_execution_time = int(time.monotonic() - began)
            self._record_metrics(result)
            for worker in self._worker_group.workers:
                self._tell_end(worker, result)
            return result
        except RendezvousGracefulExitError as error:
            _logger.info("agent: the run goes on without this machine: %s", error)
            return None
        except SignalException as error:
            death = error.sigval
            raise
        finally:
            self._shutdown(death, self._shutdown_timeout)
            self._total_execution_time = int(time.monotonic() - began)

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        group, spec = self._worker_group, self._worker_group.spec
        self._initialize_workers(group)
        while True:
            time.sleep(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            put_metric(f"workers.{spec.role}.remaining_restarts", self._remaining_restarts)
            put_metric(f"workers.{spec.role}.{result.state.name.lower()}", 1)
            if result.state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts == 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return result
                self._remaining_restarts -= 1
                self._restart_workers(group)
            elif result.state != WorkerState.HEALTHY:
                raise RuntimeError(f"[{spec.role}] Worker group in {result.state.name} state")
            elif spec.rdzv_handler.num_nodes_waiting() > 0:
                self._restart_workers(group)  # with those that have come, which is no failure

    def _exit_barrier(self) -> None:
        """Wait for the other machines, whose workers may still need this one's store."""
        size = self._worker_group.group_world_size
        try:
            barrier(
                self._store, size, "torchelastic/agent/terminal_state", self._exit_barrier_timeout
            )
        except DistError as error:
            _logger.warning("agent: the other machines did not end in time: %s", error)

    # ---------------------------------------------------------------- events

    def get_event_failed(self) -> Event:
        """An event that tells of the exception being handled."""
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=traceback.format_exc())

    def get_event_succeeded(self) -> Event:
        """An event that tells that all went well."""
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    @contextlib.contextmanager
    def record_duration(self, state: str) -> Iterator[None]:
        """A context of which an event tells how long it took."""
        began = time.perf_counter()
        try:
            yield
        finally:
            taken = 1e3 * (time.perf_counter() - began)
            self._tell(state, EventSource.AGENT, duration_ms=taken)

    def _tell(self, state, source, worker=None, **more):
        event = self._construct_event(state, source, worker, **more)
        record(event, self._worker_group.spec.event_log_handler)

    def _tell_end(self, worker, result):
        failure = result.failures.get(worker.global_rank)
        state = result.state.value
        if failure is None and worker.global_rank not in result.return_values:
            state = "TERMINATED" if result.is_failed() else state
        more = {}
        if failure is not None:
            more = {"raw_error": failure.message, "exit_code": failure.exitcode,
                    "worker_pid": failure.pid}  # fmt: skip
        self._tell(state, EventSource.WORKER, worker, **more)

    def _construct_event(
        self, state, source, worker=None, raw_error=None, duration_ms=None, exit_code=None,
        worker_pid=None,
    ):  # fmt: skip
        group, spec = self._worker_group, self._worker_group.spec
        more = {
            "group_world_size": group.group_world_size,
            "entry_point": spec.get_entrypoint_name(),
        }
        if worker is not None:
            more |= {
                "local_rank": worker.local_rank,
                "role_rank": worker.role_rank,
                "role_world_size": worker.role_world_size,
                "exit_code": exit_code,
                "worker_pid": worker_pid,
            }
        metadata = {
            "run_id": spec.rdzv_handler.get_run_id(),
            "global_rank": None if worker is None else worker.global_rank,
            "group_rank": group.group_rank,
            "worker_id": None if worker is None else str(worker.id),
            "role": spec.role,
            "hostname": socket.getfqdn(),
            "state": state,
            "total_run_time": self._total_execution_time,
            "rdzv_backend": spec.rdzv_handler.get_backend(),
            "raw_error": raw_error,
            "metadata": json.dumps(more),
            "agent_restarts": spec.max_restarts - self._remaining_restarts,
            "duration_ms": duration_ms,
        }
        return Event(f"torchelastic.worker.status.{state}", source, metadata=metadata)

    def _record_metrics(self, result: RunResult) -> None:
        spec, failed = self._worker_group.spec, result.is_failed()
        again = self._remaining_restarts != spec.max_restarts
        share = 1 - (self._remaining_restarts + 1) / (spec.max_restarts + 1)
        put_metric(f"workers.{spec.role}.flakiness", 100 if failed else int(100 * share))
        put_metric(f"workers.{spec.role}.run_total", 1)
        for name, is_so in (
            ("run_success_with_retries", not failed and again),
            ("run_success_no_retries", not failed and not again),
            ("run_failed_with_retries", failed and again),
            ("run_failed_no_retries", failed and not again),
        ):
            put_metric(f"workers.{spec.role}.{name}", int(is_so))


__all__ = [
    "ElasticAgent", "RunResult", "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec",
    "WorkerState",
]  # fmt: skip
