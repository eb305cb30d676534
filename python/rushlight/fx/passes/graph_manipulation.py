"""Replacing targets of nodes, and how many bytes nodes need."""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight
from rushlight.fx.graph import Graph
from rushlight.fx.node import map_arg
from rushlight.fx.passes.shape_prop import ShapeProp, TensorMetadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Any, new_op: str, new_target: Any
) -> None:
    """Let nodes of one op and target be of others, with the same arguments."""
    graph, copies = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg((node.args, node.kwargs), copies.__getitem__)
            copies[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    fx_module.graph = graph


class size_bytes(NamedTuple):
    """Bytes of a node's value, and of that with the parameters of the module that it calls."""

    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Tensor] | None = None) -> None:
    """Give each node `size_bytes`.

    Args:
        fx_module: the module.
        args: example to run first, which `ShapeProp` notes the shapes of.
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node: Node) -> TensorMetadata:
    """What `ShapeProp` noted of the node's value.

    Raises: RuntimeError if it noted nothing.
    """
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(f"get_tensor_meta: nothing is noted of {node}; run ShapeProp first")
    return meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of a node; see `size_bytes`."""
    meta = get_tensor_meta(node)
    parameters = 0
    if node.op == "call_module":
        parameters = sum(p.numel() for p in fx_module.get_submodule(node.target).parameters())
    output = meta.shape.numel()
    each = rushlight.empty(0, dtype=meta.dtype).element_size()
    return size_bytes(each * output, each * (output + parameters))
