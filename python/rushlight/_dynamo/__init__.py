"""The graph compiler's own module, for programs that set its options: there is no compiler."""

from types import SimpleNamespace

from rushlight.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    reset,
    substitute_in_graph,
)

# Programs assign to these.
config = SimpleNamespace(
    cache_size_limit=8, recompile_limit=8, suppress_errors=False, verbose=False,
    dynamic_shapes=True,
    automatic_dynamic_shapes=True, assume_static_by_default=True, capture_scalar_outputs=False,
    optimize_ddp=True,
)  # fmt: skip


def optimize(backend=None, **options):
    """Return what it decorates as it is."""
    return lambda function: function


def mark_dynamic(t, index, **options):
    """Say that a size changes: nothing depends on it."""


def mark_static(t, index=None):
    """Say that a size stays: nothing depends on it."""


def mark_static_address(t, guard=True):
    """Say that a tensor stays where it is: nothing depends on it."""


def graph_break(msg=""):
    """Split the graph here: there is none."""


class OptimizedModule:
    """The class of modules that were compiled, of which there are none."""


eval_frame = SimpleNamespace(OptimizedModule=OptimizedModule)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "eval_frame",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "optimize",
    "reset",
    "substitute_in_graph",
]
