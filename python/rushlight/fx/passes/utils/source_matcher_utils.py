"""Which nodes came of the same call of a module or function, as tracers have noted it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.fx.node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.fx.graph import Graph

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes of one call."""

    nodes: list[Node]
    source: Any  # the module's type, or the function
    input_nodes: list[Node] = field(default_factory=list)  # what they use of others
    output_nodes: list[Node] = field(default_factory=list)  # those that others use
    params: list[Node] = field(default_factory=list)  # those that fetch attributes


def _sources_of(node, wanted):
    """(source, where it was called) of a node, if it is one of those wanted."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        where, source = stack[-1]
        return (source, where) if source in wanted else None
    torch_fn = node.meta.get("torch_fn")
    if torch_fn is not None:
        where, name = torch_fn[0], torch_fn[1].split(".")[1]
        if name in wanted:
            return name, where
    modules = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not modules:
        return None
    path, kind = list(modules.values())[-1]
    for source in wanted:
        if kind == source:
            return source, path
        if not isinstance(source, type):
            continue
        if isinstance(kind, type) and issubclass(kind, source):
            return source, path
        if kind == f"{source.__module__}.{source.__qualname__}":
            return source, path
    return None


def _partition(nodes, source):
    inputs, outputs, attributes = {}, {}, {}
    for node in nodes:
        for value in node.args:
            if isinstance(value, Node) and value not in nodes and value.op != "get_attr":
                inputs[value] = None
        if node.op == "get_attr":
            attributes[node] = None
        elif any(user not in nodes for user in node.users):
            outputs[node] = None
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(attributes))


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """The nodes of each call of some modules and functions.

    Args:
        graph: a graph whose nodes have notes of where they come from.
        wanted_sources: types of modules, and functions.
        filter_fn: leaves out the partitions with a node for which it is false.

    Returns:
        {source: its calls}, of those that occur.
    """
    found: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        source = _sources_of(node, wanted_sources)
        if source is not None:
            found.setdefault(source[0], {}).setdefault(source[1], []).append(node)
    return {
        source: [
            _partition(nodes, source)
            for nodes in calls.values()
            if filter_fn is None or all(map(filter_fn, nodes))
        ]
        for source, calls in found.items()
    }


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Does a node of the second partition use one of the first?"""
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)
