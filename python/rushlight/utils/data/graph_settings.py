"""Settings of all steps that a dataset of steps is made of."""

from __future__ import annotations

import inspect

import rushlight
from rushlight.utils.data.graph import traverse_dps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Generator

__all__ = [
    "apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
    "get_all_graph_pipes",
]  # fmt: skip


def get_all_graph_pipes(graph: dict[int, tuple[Any, Any]]) -> list[Any]:
    """The steps of what `traverse_dps` returns, each once."""
    found: dict[int, Any] = {}
    for step, below in graph.values():
        for one in (step, *get_all_graph_pipes(below)):
            found.setdefault(id(one), one)
    return list(found.values())


def _steps(datapipe):
    return get_all_graph_pipes(traverse_dps(datapipe))


def _check_shared_once(graph, before):
    for step, below in graph.values():
        shares = hasattr(step, "apply_sharding")
        if shares and before is not None:
            raise RuntimeError(
                "Sharding twice on a single pipeline is likely unintended and will lose data: "
                f"{type(before).__name__} is behind {type(step).__name__}"
            )
        _check_shared_once(below, step if shares else before)


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None
) -> Any:
    """Tell the steps that share elements out how many share, and which this one is.

    Args:
        datapipe: the last step; returned.
        num_of_instances: how many there are.
        instance_id: the number of this one.
        sharding_group: which of several divisions is meant.

    Raises:
        RuntimeError: one such step is behind another, which would share out a part of a part.
    """
    _check_shared_once(traverse_dps(datapipe), None)
    for step in _steps(datapipe):
        if hasattr(step, "apply_sharding"):
            takes = len(inspect.signature(step.apply_sharding).parameters)
            more = () if takes < 3 or sharding_group is None else (sharding_group,)
            step.apply_sharding(num_of_instances, instance_id, *more)
    return datapipe


def _shuffling(datapipe):
    return [s for s in _steps(datapipe) if hasattr(s, "set_shuffle") and hasattr(s, "set_seed")]


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Let the steps that put elements in a random order do so, or not; None changes nothing.

    Args:
        datapipe: the last step. It is returned, behind a step that shuffles where that was asked
            for and there is none.
        shuffle: see above.
    """
    if shuffle is None:
        return datapipe
    steps = _shuffling(datapipe)
    if shuffle and not steps:
        datapipe = datapipe.shuffle()
        steps = _shuffling(datapipe)
    for step in steps:
        step.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Generator) -> Any:
    """Give each step that draws random numbers a seed of its own.

    Args:
        datapipe: the last step; returned.
        rng: draws the seeds.
    """
    for step in _steps(datapipe):
        if callable(getattr(step, "set_seed", None)):
            seed = rushlight.empty((), dtype=rushlight.int64).random_(generator=rng)
            step.set_seed(int(seed))
    return datapipe


def apply_shuffle_seed(datapipe: Any, rng: Any) -> Any:
    """The older name of `apply_random_seed`."""
    return apply_random_seed(datapipe, rng)
