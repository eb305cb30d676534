"""An agent whose workers are processes of its own."""

from __future__ import annotations

import os
import signal
import string
import tempfile
import uuid

from rushlight.distributed.elastic import timer
from rushlight.distributed.elastic.agent.server.api import (
    RunResult,
    SimpleElasticAgent,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from rushlight.distributed.elastic.events import EventSource
from rushlight.distributed.elastic.metrics import prof
from rushlight.distributed.elastic.multiprocessing import start_processes
from rushlight.distributed.elastic.utils import macros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed.elastic.multiprocessing.api import LogsSpecs, PContext

TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"
TORCHELASTIC_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"


class LocalElasticAgent(SimpleElasticAgent):
    """Starts workers as processes of this machine. With TORCHELASTIC_ENABLE_FILE_TIMER=1 it serves
    timers, which workers find by TORCHELASTIC_TIMER_FILE.

    Args:
        spec: what the workers are.
        logs_specs: where they write; a DefaultLogsSpecs.
        start_method: how processes of a function are started.
        exit_barrier_timeout: how long to wait for other machines at the end, in seconds.
        log_line_prefix_template: how lines that are shown begin, with `${role_name}`, `${rank}` and
            `${local_rank}`.
        shutdown_timeout: after how many seconds workers that were told to end are killed.
        health_check_server: started with the workers.
        uninterruptible_state_timeout: None.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        logs_specs: LogsSpecs,
        start_method: str = "spawn",
        exit_barrier_timeout: float = 300,
        log_line_prefix_template: str | None = None,
        shutdown_timeout: int = 30,
        health_check_server: Any = None,
        uninterruptible_state_timeout: float | None = None,
    ) -> None:
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        if uninterruptible_state_timeout is not None:
            raise NotImplementedError(
                "LocalElasticAgent: uninterruptible_state_timeout is not supported"
            )
        self._logs_specs, self._start_method = logs_specs, start_method
        self._prefix, self._health_check_server = log_line_prefix_template, health_check_server
        self._pcontext: PContext | None = None
        self._timers: timer.FileTimerServer | None = None

    def _environment(self, worker, worker_group):
        spec = worker_group.spec
        handler = spec.rdzv_handler
        environment = {
            "LOCAL_RANK": worker.local_rank,
            "RANK": worker.global_rank,
            "WORLD_SIZE": worker.world_size,
            "LOCAL_WORLD_SIZE": spec.local_world_size,
            "GROUP_RANK": worker_group.group_rank,
            "GROUP_WORLD_SIZE": worker_group.group_world_size,
            "ROLE_RANK": worker.role_rank,
            "ROLE_NAME": spec.role,
            "ROLE_WORLD_SIZE": worker.role_world_size,
            "MASTER_ADDR": worker_group.master_addr,
            "MASTER_PORT": worker_group.master_port,
            "TORCHELASTIC_RESTART_COUNT": spec.max_restarts - self._remaining_restarts,
            "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
            "TORCHELASTIC_RUN_ID": handler.get_run_id(),
            "TORCHELASTIC_USE_AGENT_STORE": handler.use_agent_store,
        }
        if self._timers is not None:
            environment[TORCHELASTIC_TIMER_FILE] = self._timers._file_path
        return {name: str(value) for name, value in environment.items()}

    @prof
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        spec = worker_group.spec
        self._serve_timers()
        if self._health_check_server is not None:
            self._health_check_server.start()
        workers, prefixes = worker_group.workers, None
        if self._prefix is not None:
            template = string.Template(self._prefix)
            prefixes = {
                one.local_rank: template.safe_substitute(
                    role_name=spec.role, rank=one.global_rank, local_rank=one.local_rank
                )
                for one in workers
            }
        self._pcontext = start_processes(
            spec.role,
            spec.entrypoint,
            {
                one.local_rank: tuple(macros.substitute(list(spec.args), str(one.local_rank)))
                for one in workers
            },
            {one.local_rank: self._environment(one, worker_group) for one in workers},
            self._logs_specs,
            prefixes,
            self._start_method,
            duplicate_stdout_filters=spec.duplicate_stdout_filters,
            duplicate_stderr_filters=spec.duplicate_stderr_filters,
        )
        return self._pcontext.pids()

    def _serve_timers(self):
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) != "1":
            return
        path = os.environ.get(TORCHELASTIC_TIMER_FILE) or os.path.join(
            tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}"
        )
        self._timers = timer.FileTimerServer(
            path, self._worker_group.spec.rdzv_handler.get_run_id(), max_interval=0.1,
            log_event=lambda name, request: self._tell(name, EventSource.AGENT),
        )  # fmt: skip
        self._timers.start()

    @prof
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown(timeout=self._shutdown_timeout)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        if self._timers is not None:
            self._timers.stop()
            self._timers = None
        if self._health_check_server is not None:
            self._health_check_server.stop()
        if self._pcontext is not None:
            self._pcontext.close(death_sig, timeout)

    @prof
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = self._pcontext.wait(0)
        if result is None:
            return RunResult(WorkerState.HEALTHY)

        def by_rank(found):
            return {worker_group.workers[i].global_rank: value for i, value in found.items()}

        if result.is_failed():
            failures = by_rank(result.failures)
            for rank, failure in failures.items():
                failure.rank = rank
            return RunResult(WorkerState.FAILED, failures=failures)
        return RunResult(WorkerState.SUCCEEDED, by_rank(result.return_values))


__all__ = [
    "LocalElasticAgent", "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_HEALTH_CHECK_PORT",
    "TORCHELASTIC_TIMER_FILE", "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
]  # fmt: skip
