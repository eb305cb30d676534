"""What a loader tells a dataset of steps: which part it reads, and how it shuffles."""

from __future__ import annotations

import sys

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Generator


def _steps_module():
    """The module of the classes of steps, if anybody has loaded it."""
    return sys.modules.get("rushlight.utils.data.datapipes.datapipe")


def is_pipe(dataset: Any) -> bool:
    """Is it made of steps?"""
    steps = _steps_module()
    return steps is not None and isinstance(dataset, (steps.IterDataPipe, steps.MapDataPipe))


def is_stream_of_steps(dataset: Any) -> bool:
    """Is it a stream that is made of steps?"""
    steps = _steps_module()
    return steps is not None and isinstance(dataset, steps.IterDataPipe)


def place_in_world() -> tuple[int, int]:
    """How many processes train together, and the number of this one."""
    distributed = sys.modules.get("rushlight.distributed")
    if distributed is not None and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0


def draw_shared_seed(generator: Generator | None) -> int:
    """A seed that all workers of all processes use: their steps shuffle alike."""
    seed = rushlight.empty((), dtype=rushlight.int64).random_(generator=generator)
    if place_in_world()[0] > 1:
        rushlight.distributed.broadcast(seed, src=0)
    return int(seed)


def share_out(dataset: Any, count: int, index: int) -> None:
    """Let its steps that share elements out read part `index` of `count`."""
    from rushlight.utils.data.graph_settings import apply_sharding

    apply_sharding(dataset, count, index)


def seed_steps(dataset: Any, seed: int) -> None:
    """Seed its steps that draw random numbers."""
    from rushlight.utils.data.graph_settings import apply_random_seed

    apply_random_seed(dataset, rushlight.Generator().manual_seed(seed))
