"""Several products with the same right operand as one."""

from __future__ import annotations

import itertools
import operator

import rushlight
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.passes.tools_common import legalize_graph
from rushlight.fx.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node
    from rushlight.nn import Module

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: Tensor, inputs: list[Tensor]) -> Any:
    """A product's rows, by how many each of its left operands has."""
    sizes = [0] * len(inputs) if isinstance(result, Proxy) else [x.shape[0] for x in inputs]
    return rushlight.split(result, sizes)


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """May node `a` use node `b`? Paths are followed over `search_depth` nodes; further ones may."""
    if a is b:
        return True
    inputs = a.all_input_nodes
    if inputs and search_depth == 0:
        return True
    return any(may_depend_on(node, b, search_depth - 1) for node in inputs)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Does none of the nodes use another?"""
    return not any(
        may_depend_on(a, b) or may_depend_on(b, a) for a, b in itertools.combinations(nodes, 2)
    )


def merge_matmul(in_mod: Module) -> GraphModule:
    """A module in which calls of `torch.matmul` with the same right operand are one product of
    their left operands, put together along dim 0.
    """
    gm = symbolic_trace(in_mod)
    by_right: dict[Any, list[Node]] = {}
    for node in gm.graph.find_nodes(op="call_function", target=rushlight.matmul):
        right = node.args[1]
        by_right.setdefault(right.target if right.op == "get_attr" else right, []).append(node)
    for products in by_right.values():
        if len(products) < 2 or not are_nodes_independent(products):
            continue
        graph, left = gm.graph, [product.args[0] for product in products]
        stacked = graph.call_function(rushlight.cat, (left,))
        product = graph.call_function(rushlight.matmul, (stacked, products[0].args[1]))
        parts = graph.call_function(split_result_tensors, (product, left))
        for place, old in enumerate(products):
            part = graph.call_function(operator.getitem, (parts, place))
            old.replace_all_uses_with(part)
            graph.erase_node(old)
    legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm
