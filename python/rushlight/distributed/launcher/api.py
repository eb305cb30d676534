"""Starting the workers of a run from a program; `rushlight.distributed.run` is built on it."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import pickle
import select
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from datetime import timedelta

from rushlight._ignored import warn_once
from rushlight.distributed import _wire
from rushlight.distributed._errors import DistNetworkError, DistStoreError
from rushlight.distributed._tcp_store import TCPStore
from rushlight.distributed.elastic import events
from rushlight.distributed.elastic.metrics import MetricsConfig, initialize_metrics
from rushlight.distributed.elastic.multiprocessing.api import DefaultLogsSpecs
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed.elastic.multiprocessing.api import LogsSpecs

_SET_PARENT_DEATH_SIGNAL = 1  # of Linux's prctl
# An argument of a worker's command: the older launcher says a worker's place by it.
LOCAL_RANK_WORD = "--local-rank={local_rank}"
_CALL = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))(sys.argv[2])"


@dataclasses.dataclass
class LaunchConfig:
    """What is to be started.

    Args:
        min_nodes, max_nodes: how many machines.
        nproc_per_node: workers on each.
        run_id: the name of the run; the same on all machines.
        rdzv_endpoint: host:port where machines meet; "" for a single machine.
        rdzv_backend: "static", where each machine knows its `node_rank`, or "c10d".
        rdzv_configs: `rank` for static, `join_timeout` and `last_call_timeout` in seconds.
        max_restarts: how often the workers are started again when one fails.
        monitor_interval: seconds between looks at the workers.
        logs_specs: where workers write; by default a DefaultLogsSpecs, which shows all.
        role: a name that workers see in ROLE_NAME.
        rdzv_timeout: an older way to give rdzv_configs["timeout"]: for how many seconds machines
            wait for each other; 900 by default.
        start_method: "spawn"; the others warn: workers are fresh processes.
        log_line_prefix_template: how lines begin that are shown and go to files too, with
            `${role_name}`, `${rank}` and `${local_rank}`.
        metrics_cfg: parameters of elastic.metrics.
        local_addr: the name by which the other machines know this one.
        event_log_handler: who is told how the run has ended: "null" or "console".
        numa_options: None.
        signals_to_handle: the signals that end the workers, too.
        duplicate_stdout_filters, duplicate_stderr_filters: lines that are shown and go to files
            too and contain one of these texts go to a file of their own.
        virtual_local_rank: LOCAL_RANK is 0 in all workers, and each sees one GPU.
        shutdown_timeout: after how many seconds workers that were told to end are killed: 30, or
            what TORCH_ELASTIC_SHUTDOWN_TIMEOUT says.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict[str, Any] = dataclasses.field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = dataclasses.field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.numa_options is not None:
            raise NotImplementedError("LaunchConfig: numa_options: workers run on any processor")
        if self.start_method != "spawn":
            warn_once(
                f"LaunchConfig: start_method {self.start_method!r} has no effect: workers are "
                "fresh processes"
            )
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        if self.shutdown_timeout < 0:
            raise ValueError(f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}")


class _Worker:
    """A started process, and the threads that copy what it writes."""

    def __init__(
        self, process: Any, local_rank: Any, rank: int, error_file: Any, copiers: Any
    ) -> None:
        self.process, self.local_rank, self.rank = process, local_rank, rank
        self.error_file, self.copiers = error_file, copiers
        self.ended = 0  # when that was seen
        try:
            self.descriptor = os.pidfd_open(process.pid)  # can be read from when it ends
        except OSError:  # an old kernel, or a container that forbids it
            self.descriptor = None

    def code(self) -> Any:
        """Its exit code; None while it runs."""
        code = self.process.poll()
        if code is not None and not self.ended:
            self.ended = int(time.time())
            if self.descriptor is not None:
                os.close(self.descriptor)
                self.descriptor = None
        return code

    def failure(self) -> Any:
        """How it failed."""
        return ProcessFailure(self.local_rank, self.process.pid, self.process.returncode,
                              self.error_file, self.rank, timestamp=self.ended)  # fmt: skip

    def order_of_failure(self) -> Any:
        """Sorts workers that were found to have failed at the same time: causes come first.

        When one dies, collectives of the others fail. So who was killed is the cause of those that
        raised, and of these who did first.
        """
        try:
            recorded = os.stat(self.error_file).st_mtime_ns
        except OSError:
            recorded = float("inf")
        return self.process.returncode >= 0, recorded, self.rank


class Agent:
    """Starts this machine's workers, looks after them and starts them again.

    Args:
        config: a LaunchConfig.
        command: the arguments of a worker's process.
        name: the program, for messages.
    """

    config: LaunchConfig
    command: Any
    name: str
    address: str
    port: int
    node: int
    first_rank: int
    world_size: int
    nodes: int

    def __init__(self, config: Any, command: Any, name: str) -> None:
        self.config, self.command, self.name = config, command, name
        self.restarts: int = 0
        self.workers: list[Any] = []
        self._cause = None  # the worker that failed first, unless it is on another machine
        self._told_to_end = None
        self._folder = tempfile.mkdtemp(prefix="rushlight-run-")
        self.run_id: Any = config.run_id or uuid.uuid4().hex[:8]
        self._store = None
        self.on_results: Any = lambda files: None  # rank -> where a function's result was written

    def run(self) -> None:
        """Run the workers until all have ended well.

        Raises:
            ChildFailedError: a worker failed once too often.
        """
        handlers = self._take_signals()
        initialize_metrics(MetricsConfig(self.config.metrics_cfg))
        outcome = "FAILED"
        try:
            self._meet()
            while True:
                self._start_round()
                failed = self._watch()
                if failed is None:
                    self._leave_store()
                    self.on_results({w.rank: self._result(w.local_rank) for w in self.workers})
                    outcome = "SUCCEEDED"
                    return
                self._end_workers()
                if self._told_to_end is not None:
                    raise KeyboardInterrupt(f"signal {self._told_to_end}")
                if self.restarts >= self.config.max_restarts:
                    self._store.set(f"{self._key()}/given_up", "1")
                    failures = self._failures()
                    if not failures:
                        raise DistStoreError(f"{self.name}: a worker on another machine failed")
                    raise ChildFailedError(self.name, failures)
                self.restarts += 1
                print(
                    f"rushlight.distributed.run: {failed}; restart {self.restarts} of "
                    f"{self.config.max_restarts}",
                    file=sys.stderr,
                    flush=True,
                )
        finally:
            self._end_workers()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            shutil.rmtree(self._folder, ignore_errors=True)
            if isinstance(self.config.logs_specs, DefaultLogsSpecs):
                self.config.logs_specs._forget()
            about = {"run_id": self.run_id, "entrypoint": self.name, "restarts": self.restarts}
            name = f"torchelastic.worker.status.{outcome}"
            events.record(
                events.Event(name, events.EventSource.AGENT, metadata=about),
                self.config.event_log_handler,
            )

    def _take_signals(self):
        if threading.current_thread() is not threading.main_thread():
            return {}

        def take(number, frame):
            self._told_to_end = number

        handlers = {}
        for name in filter(None, map(str.strip, self.config.signals_to_handle.split(","))):
            number = getattr(signal, name, None)
            if not isinstance(number, signal.Signals):
                raise ValueError(f"LaunchConfig: signals_to_handle: there is no signal {name!r}")
            handlers[number] = signal.signal(number, take)
        return handlers

    # -------------------------------------------------------------- machines

    def _meet(self):
        config = self.config
        if config.max_nodes == 1 and not config.rdzv_endpoint:
            _wire.new_secret()
            host, port = "127.0.0.1", 0
            self._store = TCPStore(host, port, is_master=True, wait_for_workers=False)
        else:
            host, _, port = config.rdzv_endpoint.rpartition(":")
            if not host:
                host, port = config.rdzv_endpoint, "29400"
            is_master = self._is_master(host)
            if is_master is None:
                is_master = is_this_machine(host)
            self._store = self._serve_or_connect(host, int(port), is_master)
        self._store.set_timeout(timedelta(seconds=float(config.rdzv_configs["timeout"])))
        self.address, self.port = self._store.host, self._store.port

    def _is_master(self, host):
        if self.config.rdzv_backend == "static":
            return self.config.rdzv_configs.get("rank", 0) == 0
        told = self.config.rdzv_configs.get("is_host")
        return None if told is None else str(told).lower() in ("1", "true", "yes")

    def _serve_or_connect(self, host, port, is_master):
        if is_master:
            try:
                return TCPStore(host, port, is_master=True, wait_for_workers=False)
            except DistNetworkError:
                if self.config.rdzv_backend == "static":
                    raise  # else another agent of this machine serves it
        return TCPStore(host, port, wait_for_workers=False)

    def _key(self):
        return f"run/{self.run_id}/{self.restarts}"

    def _start_round(self):
        """Learn which machines take part, and start this one's workers."""
        config, key = self.config, self._key()
        if config.rdzv_backend == "static" or config.max_nodes == 1:
            self.node = int(config.rdzv_configs.get("rank", 0)) if config.max_nodes > 1 else 0
            nodes = config.max_nodes
        else:
            self.node, nodes = self._join(key)
        self._store.set(f"{key}/node/{self.node}", str(config.nproc_per_node))
        keys = [f"{key}/node/{node}" for node in range(nodes)]
        try:
            counts = [int(count) for count in self._store.multi_get(keys)]
        except DistStoreError:
            missing = [n for n in range(nodes) if not self._store.check([keys[n]])]
            raise DistStoreError(
                f"rushlight.distributed.run: nodes {missing} of {nodes} did not come"
            ) from None
        self.first_rank, self.world_size = sum(counts[: self.node]), sum(counts)
        self.nodes = nodes
        self._start_workers()

    def _join(self, key):
        """Wait for enough machines: this one's number, and how many there are."""
        config = self.config
        node = self._store.add(f"{key}/joined", 1) - 1
        if node >= config.max_nodes:
            raise DistStoreError(
                f"rushlight.distributed.run: machine {node + 1} of at most {config.max_nodes}"
            )
        join_timeout = float(config.rdzv_configs.get("join_timeout", 600))
        last_call = float(config.rdzv_configs.get("last_call_timeout", 30))
        began, enough = time.monotonic(), None
        while True:
            if self._store.check([f"{key}/closed"]):
                nodes = int(self._store.get(f"{key}/closed"))
                if node >= nodes:
                    raise DistStoreError("rushlight.distributed.run: the run began without this "
                                         "machine")  # fmt: skip
                return node, nodes
            joined, now = self._store.add(f"{key}/joined", 0), time.monotonic()
            if joined >= config.min_nodes:
                enough = enough or now
                if node == 0 and (joined >= config.max_nodes or now > enough + last_call):
                    self._store.compare_set(f"{key}/closed", "", str(min(joined, config.max_nodes)))
            elif now > began + join_timeout:
                raise DistStoreError(
                    f"rushlight.distributed.run: {joined} of at least {config.min_nodes} machines "
                    f"came within {join_timeout:g} s"
                )
            time.sleep(0.05)

    def _leave_store(self):
        """Who serves the store waits for the others."""
        done = self._store.add(f"{self._key()}/done", 1)
        deadline = time.monotonic() + 300.0
        while self._store._server is not None and done < self.nodes:
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
            done = self._store.add(f"{self._key()}/done", 0)

    # --------------------------------------------------------------- workers

    def _environment(self, local_rank):
        config, own = self.config, {"LOCAL_RANK": str(local_rank)}
        if config.virtual_local_rank:
            own = {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": _own_gpu(local_rank)}
        environment = dict(os.environ)
        environment.setdefault("OMP_NUM_THREADS", "1")
        for variable in ("PMI_FD", "PMI_PORT", "PMI_RANK", "PMI_SIZE", "PMI_ID"):
            environment.pop(variable, None)  # of an MPI that has started this launcher
        return environment | {
            "RANK": str(self.first_rank + local_rank),
            "WORLD_SIZE": str(self.world_size),
            **own,
            "LOCAL_WORLD_SIZE": str(config.nproc_per_node),
            "GROUP_RANK": str(self.node),
            "GROUP_WORLD_SIZE": str(self.nodes),
            "ROLE_RANK": str(self.first_rank + local_rank),
            "ROLE_WORLD_SIZE": str(self.world_size),
            "ROLE_NAME": config.role,
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": str(self.restarts),
            "TORCHELASTIC_MAX_RESTARTS": str(config.max_restarts),
            "TORCHELASTIC_RUN_ID": self.run_id,
        }

    def _start_workers(self):
        count = self.config.nproc_per_node
        environments = {i: self._environment(i) for i in range(count)}
        files = self.config.logs_specs.reify(environments)
        self.workers, self._cause = [], None
        for local_rank in range(count):
            command = [
                part.replace("{result}", self._result(local_rank))
                if part != LOCAL_RANK_WORD
                else LOCAL_RANK_WORD.format(local_rank=local_rank)
                for part in self.command
            ]
            targets, copies = zip(*self._streams(local_rank, files))
            process = subprocess.Popen(
                command,
                env=environments[local_rank],
                stdout=targets[0],
                stderr=targets[1],
                preexec_fn=_end_with_parent,
            )
            copiers = [
                _copy(pipe, *copy)
                for pipe, copy in zip((process.stdout, process.stderr), copies)
                if pipe is not None
            ]
            error_file, rank = files.error_files[local_rank], self.first_rank + local_rank
            self.workers.append(_Worker(process, local_rank, rank, error_file, copiers))
            for target in targets:
                if hasattr(target, "close"):
                    target.close()

    def _result(self, local_rank):
        return os.path.join(self._folder, f"result-{self.restarts}-{local_rank}")

    def _streams(self, local_rank, files):
        """For standard output and errors: where the process writes, and how that is copied."""
        config = self.config
        template = config.log_line_prefix_template or "[${role_name}${local_rank}]:"
        prefix = string.Template(template).safe_substitute(
            role_name=config.role, rank=self.first_rank + local_rank, local_rank=local_rank
        )
        for paths, shown, own, filters, chosen in (
            (files.stdouts, files.tee_stdouts, sys.stdout, config.duplicate_stdout_filters,
             files.filtered_stdout),
            (files.stderrs, files.tee_stderrs, sys.stderr, config.duplicate_stderr_filters,
             files.filtered_stderr),
        ):  # fmt: skip
            path = paths[local_rank]
            if shown.get(local_rank):
                where = (filters, open(chosen, "ab", buffering=0)) if filters else ((), None)
                yield subprocess.PIPE, (open(path, "wb", buffering=0), own, prefix, *where)
            else:
                yield (open(path, "wb", buffering=0) if path else None), None

    def _watch(self):
        """Wait until all workers have ended well, and return None; or return what failed."""
        key, last_look = self._key(), time.monotonic()
        while True:
            codes = [worker.code() for worker in self.workers]
            failed = [worker for worker, code in zip(self.workers, codes) if code]
            if failed:
                self._cause = min(failed, key=_Worker.order_of_failure)
                rank, code = self._cause.rank, self._cause.process.returncode
                self._store.set(f"{key}/failed", str(rank))
                return f"rank {rank} ended with code {code}"
            if self._told_to_end is not None:
                return "told to end"
            if all(code == 0 for code in codes):
                for worker in self.workers:
                    for copier in worker.copiers:
                        copier.join()
                return None
            if self.nodes > 1 and time.monotonic() > last_look + max(
                0.5, self.config.monitor_interval
            ):
                last_look = time.monotonic()
                if self._store.check([f"{key}/failed"]):
                    rank = self._store.get(f"{key}/failed").decode()
                    return f"rank {rank}, on another machine, failed"
            self._wait_for_an_end(self.config.monitor_interval)

    def _wait_for_an_end(self, seconds):
        """Wait until a worker ends, but no longer than so."""
        ends = select.poll()
        for worker in self.workers:
            if worker.descriptor is not None:
                ends.register(worker.descriptor, select.POLLIN)
        ends.poll(1000 * seconds)

    def _failures(self):
        """rank -> how it failed, of this machine's workers, the cause before its consequences."""
        failed = [worker for worker in self.workers if worker.code()]
        failures = {w.rank: w.failure() for w in sorted(failed, key=lambda w: w is not self._cause)}
        if self._cause is not None:
            first = min(failure.timestamp for failure in failures.values())
            failures[self._cause.rank].timestamp = first
        return failures

    def _end_workers(self):
        """Give those that still run a moment to fail by themselves, then end them."""
        if self._told_to_end is None:
            self._wait(1.0)  # so that they can say what they know
        for number in (signal.SIGTERM, signal.SIGKILL):
            for worker in self.workers:
                if worker.code() is None:
                    worker.process.send_signal(number)
            if self._wait(self.config.shutdown_timeout):
                break
        for worker in self.workers:
            for copier in worker.copiers:
                copier.join(1.0)

    def _wait(self, seconds):
        deadline = time.monotonic() + seconds
        while any([worker.code() is None for worker in self.workers]):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._wait_for_an_end(min(left, 0.02))
        return True


def _end_with_parent():
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def is_this_machine(host: str) -> bool:
    """Is it a name or an address of this machine?"""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        address = socket.gethostbyname(host)
        with socket.socket() as probe:
            probe.bind((address, 0))  # an address of this machine can be bound
        return True
    except OSError:
        return False


def _own_gpu(local_rank):
    """The GPU that a worker sees, of those that this process sees."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        return str(local_rank)
    if local_rank >= len(seen.split(",")):
        raise ValueError(
            f"local_rank {local_rank} exceeds available GPUs in CUDA_VISIBLE_DEVICES={seen}"
        )
    return seen.split(",")[local_rank].strip()


def _copy(pipe, file, shown, prefix, filters, chosen):
    """Copy lines to a file, with a prefix to the console, and some to another file."""

    def run():
        with pipe, file, chosen or contextlib.nullcontext():
            for line in pipe:
                file.write(line)
                text = line.decode(errors="replace")
                shown.write(prefix + text)
                shown.flush()
                if any(part in text for part in filters):
                    chosen.write(line)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class _Call:
    """A function with its arguments, whose result a worker writes into a file."""

    def __init__(self, function: Callable[..., Any], args: Any) -> None:
        self.function, self.args = function, args

    def __call__(self, path: str | os.PathLike[str]) -> None:
        result = self.function(*self.args)
        with open(path, "wb") as file:
            pickle.dump(result, file)


def launch_agent(config: Any, entrypoint: Any, args: Any) -> Any:
    """Run a function, or a command, in the workers that `config` describes.

    Args:
        config: a LaunchConfig.
        entrypoint: a function that can be pickled, or the first word of a command.
        args: its arguments, or the command's other words.

    Returns:
        rank -> the function's result, of the workers on this machine.

    Raises:
        ChildFailedError: a worker failed once too often.
    """
    if isinstance(entrypoint, str):
        Agent(config, [entrypoint, *args], entrypoint).run()
        return {}
    name = getattr(entrypoint, "__qualname__", repr(entrypoint))
    with tempfile.TemporaryDirectory(prefix="rushlight-run-") as folder:
        path = os.path.join(folder, "call")
        with open(path, "wb") as file:
            pickle.dump(_Call(entrypoint, tuple(args)), file)
        runner = os.path.join(folder, "runner.py")
        with open(runner, "w") as file:
            file.write(f"import sys\nsys.path[:] = {sys.path!r}\n{_CALL}\n")
        agent = Agent(config, [sys.executable, "-u", runner, path, "{result}"], name)
        results = {}

        def keep(found):
            for rank, where in found.items():
                with open(where, "rb") as file:
                    results[rank] = pickle.load(file)

        agent.on_results = keep
        agent.run()
        return results


class elastic_launch:
    """Runs a function, or a command, in workers: `elastic_launch(config, entrypoint)(*args)`.

    Args:
        config: a LaunchConfig.
        entrypoint: a function that can be pickled, or the first word of a command.
    """

    def __init__(self, config: Any, entrypoint: Any) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> Any:
        return launch_agent(self._config, self._entrypoint, list(args))


__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
