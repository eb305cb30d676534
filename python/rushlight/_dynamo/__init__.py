"""The graph compiler's own module, for programs that set its options: there is no compiler."""

from __future__ import annotations

from types import SimpleNamespace

from rushlight._dynamo import config, exc
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
    """Return what it decorates as it is."""
    return lambda function: function


def mark_dynamic(t: Tensor, index: int | list[Any] | tuple[Any], **options: Any) -> None:
    """Say that a size changes: nothing depends on it."""


def mark_static(t: Tensor, index: int | list[Any] | tuple[Any] | None = None) -> None:
    """Say that a size stays: nothing depends on it."""


def mark_static_address(t: Tensor, guard: bool = True) -> None:
    """Say that a tensor stays where it is: nothing depends on it."""


def graph_break(msg: str = "") -> None:
    """Split the graph here: there is none."""


class OptimizedModule:
    """The class of modules that were compiled, of which there are none."""


def is_dynamo_supported():
    """Can programs be compiled here? They cannot."""
    return False


eval_frame = SimpleNamespace(
    OptimizedModule=OptimizedModule, is_dynamo_supported=is_dynamo_supported
)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "eval_frame",
    "exc",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "optimize",
    "reset",
    "substitute_in_graph",
]
