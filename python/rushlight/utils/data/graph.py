"""Which steps a dataset of steps is made of."""

from __future__ import annotations

from rushlight._set_module import home_of as _home_of
from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["traverse", "traverse_dps"]


def traverse_dps(datapipe: IterDataPipe[Any] | MapDataPipe[Any]) -> dict[int, tuple[Any, Any]]:
    """The steps that a step takes its elements from: {id: (step, the same of that step)}.

    Args:
        datapipe: the last step.
    """
    return _traverse(datapipe, set())


def traverse(
    datapipe: IterDataPipe[Any] | MapDataPipe[Any], only_datapipe: bool | None = None
) -> dict[int, tuple[Any, Any]]:
    """The older name of `traverse_dps`.

    Args:
        datapipe: the last step.
        only_datapipe: look only at attributes that are steps or containers of them, which is what
            happens anyway.
    """
    return traverse_dps(datapipe)


def _traverse(datapipe, seen):
    if not isinstance(datapipe, (IterDataPipe, MapDataPipe)):
        raise RuntimeError(
            f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found"
        )
    if id(datapipe) in seen:
        return {}
    below = {}
    for step in _steps_of(list(vars(datapipe).values()), set()):
        below.update(_traverse(step, seen | {id(datapipe)}))
    return {id(datapipe): (datapipe, below)}


def _steps_of(values, seen):
    """The steps among attributes, in containers and in what steps share too."""
    for value in values:
        if isinstance(value, (IterDataPipe, MapDataPipe)):
            yield value
        elif id(value) in seen:
            continue
        elif isinstance(value, (list, tuple, set, dict)):
            inner = value.values() if isinstance(value, dict) else value
            yield from _steps_of(inner, seen | {id(value)})
        elif _home_of(type(value)).startswith("rushlight.utils.data.datapipes."):
            yield from _steps_of(vars(value).values(), seen | {id(value)})
