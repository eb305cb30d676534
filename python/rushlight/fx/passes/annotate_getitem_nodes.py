"""Types of what is taken out of tuples and lists."""

from __future__ import annotations

import operator
import typing

from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.fx.graph import Graph

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Give `getitem` nodes the type that the annotation of their tuple, list or named tuple says.

    Args:
        graph: the graph, whose nodes are changed.
    """
    for node in graph.nodes:
        if node.target is not operator.getitem or not node.args[0].type:
            continue
        kind, index = node.args[0].type, node.args[1]
        inner, origin = typing.get_args(kind), typing.get_origin(kind)
        if origin is list:
            (node.type,) = inner
        elif origin is tuple and len(inner) == 2 and inner[1] is ...:
            node.type = inner[0]
        elif origin is tuple:
            if index >= len(inner):
                raise AssertionError(f"annotate_getitem_nodes: {node} takes {index} of {kind}")
            node.type = inner[index]
        elif hasattr(kind, "_fields") and kind is not Tensor:
            node.type = kind.__annotations__[kind._fields[index]]
