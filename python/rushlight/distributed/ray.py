"""Training in workers that Ray starts, on the conventions of Ray Train.

    from rushlight.distributed.ray import ScalingConfig, TorchTrainer, report

    def train(config):
        ...                      # rushlight.distributed is initialized
        report({"loss": loss})

    result = TorchTrainer(train, scaling_config=ScalingConfig(num_workers=4)).fit()

Needs Ray: `pip install ray`. The workers form one world of MPI, as those of any other launcher do.
When one is lost, all are started again, and `get_checkpoint()` gives the last that was reported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import os
import shutil
import socket
import tempfile
import uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = [
    "Checkpoint",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "TorchTrainer",
    "get_checkpoint",
    "get_context",
    "report",
]


@dataclasses.dataclass
class ScalingConfig:
    """How many workers there are, and what each needs.

    Args:
        num_workers: how many.
        use_gpu: False: workers are not given GPUs.
        resources_per_worker: what Ray reserves for each, {"CPU": 1} by default.
    """

    num_workers: int = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None

    def __post_init__(self) -> None:
        if self.use_gpu:
            raise NotImplementedError("ScalingConfig: use_gpu=True: workers are not given GPUs")


@dataclasses.dataclass
class FailureConfig:
    """How often the workers are started again when one is lost."""

    max_failures: int = 0


@dataclasses.dataclass
class RunConfig:
    """Where a run keeps its checkpoints.

    Args:
        name: of the run.
        storage_path: a folder that all machines see; by default in the home folder.
        failure_config: what happens when a worker is lost.
    """

    name: str = None
    storage_path: str = None
    failure_config: FailureConfig = dataclasses.field(default_factory=FailureConfig)


class Checkpoint:
    """A folder with what a run was at some moment.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = str(path)

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Any:
        """A checkpoint of the files in a folder."""
        return cls(path)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Copy the files into a folder, and return its path."""
        path = tempfile.mkdtemp(prefix="checkpoint-") if path is None else str(path)
        shutil.copytree(self.path, path, dirs_exist_ok=True)
        return path

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[Any]:
        """A context that gives the path of the folder, to read."""
        yield self.path

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r})"


@dataclasses.dataclass
class Result:
    """What a run came to: what rank 0 reported last, the last checkpoint, and the error."""

    metrics: dict[str, Any]
    checkpoint: Checkpoint
    error: Exception
    path: str
    metrics_history: list[dict[str, Any]]


class _Context:
    """Which worker this is."""

    def __init__(
        self,
        rank: int,
        size: Any,
        local_rank: Any,
        local_size: Any,
        node_rank: Any,
        folder: Any,
        checkpoint: Any,
    ) -> None:
        self._rank, self._size = rank, size
        self._local_rank, self._local_size, self._node_rank = local_rank, local_size, node_rank
        self.folder, self.checkpoint, self.reports = folder, checkpoint, []

    def get_world_rank(self) -> Any:
        """Its rank."""
        return self._rank

    def get_world_size(self) -> Any:
        """How many workers there are."""
        return self._size

    def get_local_rank(self) -> Any:
        """Its number on its machine."""
        return self._local_rank

    def get_local_world_size(self) -> Any:
        """How many workers there are on its machine."""
        return self._local_size

    def get_node_rank(self) -> Any:
        """The number of its machine."""
        return self._node_rank


_context = None


def get_context() -> Any:
    """Which worker this is; RuntimeError outside of a worker."""
    if _context is None:
        raise RuntimeError("get_context: only a training function that TorchTrainer runs has one")
    return _context


def get_checkpoint() -> Any:
    """The checkpoint to go on from, or None at the start."""
    return get_context().checkpoint


def report(metrics: Any, checkpoint: Any = None) -> None:
    """Tell how training goes; all workers do so together.

    Args:
        metrics: a dict; that of rank 0 is kept.
        checkpoint: a Checkpoint; that of rank 0 is copied to the run's folder, and what other
            ranks have in theirs beside it.
    """
    import rushlight.distributed as dist

    context = get_context()
    context.reports.append(dict(metrics))
    if checkpoint is not None:
        number = len(context.reports) + context.first_number
        final = os.path.join(context.folder, f"checkpoint_{number:06d}")
        checkpoint.to_directory(final + ".new")
        dist.barrier()  # all have written theirs
        if context.get_world_rank() == 0:
            os.replace(final + ".new", final)
        context.checkpoint = Checkpoint(final)
    dist.barrier()


def _checkpoints(folder):
    names = [name for name in os.listdir(folder) if name.startswith("checkpoint_")]
    return sorted(name for name in names if not name.endswith(".new"))


class _Worker:
    """An actor of Ray: one process."""

    def place(self) -> Any:
        """Its machine's address and name, and a free port there."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        import ray

        return ray.util.get_node_ip_address(), socket.gethostname(), port

    def run(
        self, function: Callable[..., Any], config: Any, variables: Any, places: Any, folder: Any
    ) -> Any:
        """Run the training function."""
        global _context
        import rushlight.distributed as dist

        os.environ.update(variables)
        rank = int(variables["RANK"])
        hosts = list(dict.fromkeys(places))
        kept = _checkpoints(folder)
        _context = _Context(
            rank,
            len(places),
            int(variables["LOCAL_RANK"]),
            places.count(places[rank]),
            hosts.index(places[rank]),
            folder,
            Checkpoint(os.path.join(folder, kept[-1])) if kept else None,
        )
        _context.first_number = int(kept[-1].rpartition("_")[2]) if kept else 0
        dist.init_process_group("gloo")
        try:
            if inspect.signature(function).parameters:
                function({} if config is None else config)
            else:
                function()
            dist.barrier()
            return _context.reports
        finally:
            dist.destroy_process_group()


class TorchTrainer:
    """Runs a function in workers that Ray starts, as one world.

    Args:
        train_loop_per_worker: the function; gets `train_loop_config` if there is one.
        train_loop_config: a dict.
        scaling_config: how many workers.
        run_config: where checkpoints are kept, and how often workers are started again.
    """

    def __init__(
        self,
        train_loop_per_worker: Any,
        *,
        train_loop_config: Any = None,
        scaling_config: Any = None,
        run_config: Any = None,
    ) -> None:
        self._function, self._config = train_loop_per_worker, train_loop_config
        self._scaling = scaling_config or ScalingConfig()
        self._run = run_config or RunConfig()

    def fit(self) -> Any:
        """Train, and return a Result.

        Raises:
            ImportError: Ray is not installed.
            RuntimeError: a worker failed once too often; its error is the cause.
        """
        try:
            ray = importlib.import_module("ray")
        except ImportError as error:
            raise ImportError("TorchTrainer: Ray is not installed: pip install ray") from error
        if not ray.is_initialized():
            ray.init()
        storage = self._run.storage_path or os.path.expanduser("~/rushlight_results")
        folder = os.path.join(storage, self._run.name or f"run_{uuid.uuid4().hex[:8]}")
        os.makedirs(folder, exist_ok=True)
        failures = 0
        while True:
            try:
                history = self._attempt(ray, folder)
                break
            except ray.exceptions.RayError as error:
                failures += 1
                if failures > self._run.failure_config.max_failures:
                    raise RuntimeError(f"TorchTrainer: a worker failed: {error}") from error
        kept = _checkpoints(folder)
        last = Checkpoint(os.path.join(folder, kept[-1])) if kept else None
        return Result(history[-1] if history else {}, last, None, folder, history)

    def _attempt(self, ray, folder):
        resources = dict(self._scaling.resources_per_worker or {"CPU": 1})
        cpus = resources.pop("CPU", 1)
        actor = ray.remote(num_cpus=cpus, resources=resources or None)(_Worker)
        workers = [actor.remote() for _ in range(self._scaling.num_workers)]
        try:
            found = ray.get([worker.place.remote() for worker in workers])
            hosts = [host for _, host, _ in found]
            address = "127.0.0.1" if len(set(hosts)) == 1 else found[0][0]
            shared = {
                "MASTER_ADDR": address,
                "MASTER_PORT": str(found[0][2]),
                "WORLD_SIZE": str(len(workers)),
            }
            under_way = [
                worker.run.remote(
                    self._function,
                    self._config,
                    shared
                    | {"RANK": str(rank), "LOCAL_RANK": str(hosts[:rank].count(hosts[rank]))},
                    hosts,
                    folder,
                )
                for rank, worker in enumerate(workers)
            ]
            return ray.get(under_way)[0]
        finally:
            for worker in workers:
                ray.kill(worker)
