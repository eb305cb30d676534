"""Tensors that a program found outside of its arguments, as placeholders of its graph."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rushlight.fx import Graph


def constant_position(graph: Graph) -> AbstractContextManager[object]:
    """Let a new placeholder come behind parameters, buffers and constants, before the inputs."""
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    first_input = next((n for n in placeholders if n.meta.get("kind") == "input"), None)
    if first_input is not None:
        return graph.inserting_before(first_input)
    return graph.inserting_after(placeholders[-1]) if placeholders else graph.inserting_before()
