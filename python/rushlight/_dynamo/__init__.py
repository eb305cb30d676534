"""The graph compiler's own module, for programs that set its options: there is no compiler."""

from __future__ import annotations

import rushlight
from rushlight._dynamo import config, eval_frame, exc, utils as utils
from rushlight._dynamo.eval_frame import OptimizedModule, is_dynamo_supported
from rushlight.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    substitute_in_graph,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


def optimize(backend: Any = None, **options: Any) -> Any:
    """A decorator like that of `rushlight.compile`, which nothing is said of the options."""
    return rushlight.compile(backend="eager")


def mark_dynamic(t: Tensor, index: int | list[Any] | tuple[Any], **options: Any) -> None:
    """Say that a size changes: nothing depends on it."""


def mark_static(t: Tensor, index: int | list[Any] | tuple[Any] | None = None) -> None:
    """Say that a size stays: nothing depends on it."""


def mark_static_address(t: Tensor, guard: bool = True) -> None:
    """Say that a tensor stays where it is: nothing depends on it."""


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Would say which graphs a function is cut into.

    Raises:
        NotImplementedError: functions run as they are: no graph is made.
    """
    raise NotImplementedError("_dynamo.explain: functions run as they are: no graph is made")


def reset_code_caches() -> None:
    """Forget what was compiled: nothing is."""


def graph_break(msg: str = "") -> None:
    """Split the graph here: there is none."""


__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "eval_frame",
    "exc",
    "explain",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "reset_code_caches",
    "optimize",
    "reset",
    "substitute_in_graph",
]
