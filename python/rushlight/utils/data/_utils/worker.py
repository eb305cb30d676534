"""The import path `utils.data._utils.worker` of existing programs."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rushlight.utils.data.random_state import RNG as _RNG, numpy_seed
from rushlight.utils.data.worker import WorkerInfo, get_worker_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ManagerWatchdog", "WorkerInfo", "_RNG", "_generate_state", "get_worker_info"]


def __getattr__(name: str) -> Any:
    if name == "_worker_info":
        return get_worker_info()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """What a worker of another library's loader sends at the end of its stream."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """What such a loader sends its workers at the start of another epoch, and they answer with."""

    seed: int | None = None


class ManagerWatchdog:
    """Says in a worker process whether the process that started it is still there."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()
        self.manager_dead = False

    def is_alive(self) -> bool:
        """Return False from the moment on at which the parent has gone."""
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead


def _generate_state(base_seed, worker_id):
    return [int(word) for word in numpy_seed(base_seed, worker_id)]
