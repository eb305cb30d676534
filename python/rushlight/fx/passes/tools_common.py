"""What passes ask about nodes, and orders of graphs."""

from __future__ import annotations

import collections
import heapq
import operator
from dataclasses import dataclass

import rushlight
from rushlight import Tensor
from rushlight.fx._names import qualified_name
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rushlight.fx import GraphModule
    from rushlight.nn import Module

__all__ = [
    "FxNetAccFusionsFinder",
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[Tensor] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def _public(module):
    """A module's name as torch has it."""
    return f"torch{module.removeprefix('rushlight')}" if module.startswith("rushlight") else module


def get_acc_ops_name(k: str | type) -> str:
    """The name of a type with its module; a text as it is."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{_public(k.__module__ or '')}.{k.__name__}"


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """What a node calls, as text: a method's name, or that of a function or a module's type.

    Args:
        submodules: {path: module}, as `dict(module.named_modules())`.
        node: a call.

    Raises: AssertionError if the node is no call.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"get_node_target: {node} is a {node.op}, and calls nothing")
    if node.op == "call_method":
        return node.target
    if node.op == "call_module":
        module = submodules[node.target]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    if "acc_ops" in (getattr(node.target, "__module__", None) or ""):
        return f"acc_ops.{node.target.__name__}"
    return qualified_name(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Is the node's value a tensor? `ShapeProp` notes what is needed to know."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


class FxNetAccFusionsFinder:
    """Finds groups of nodes that give each other values that are no tensors.

    Args:
        module: the module.
        acc_nodes: nodes that may be in groups; those of a group with others in it are taken out.

    Calling it returns {node: the set of nodes of its group}.
    """

    acc_nodes: Any

    @dataclass
    class FusionGroup:
        """A group while it grows."""

        top_node_idx: int  # place of its first node in the graph
        nodes: NodeSet
        inputs: NodeSet
        nodes_need_process: NodeSet

        def add_node(self, node: Node) -> None:
            """Take a node into the group."""
            if node in self.nodes:
                return
            self.nodes_need_process.add(node)
            self.nodes.add(node)
            self.inputs.discard(node)
            self.inputs.update(
                n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS and n not in self.nodes
            )

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module = module
        self.nodes: NodeList = list(module.graph.nodes)
        self.acc_nodes = acc_nodes
        self.node_index: dict[Node, int] = {node: i for i, node in enumerate(self.nodes)}

    def recursive_add_node(
        self,
        fusion_group: FusionGroup,
        inputs: NodeSet | NodeList,
        visited: NodeSet | None = None,
    ) -> bool:
        """Take in what lies between the group and `inputs`; return whether anything does."""
        visited = set() if visited is None else visited
        for node in list(inputs):
            if node in visited or node.op not in CALLABLE_NODE_OPS:
                continue
            visited.add(node)
            if self.node_index[node] < fusion_group.top_node_idx:
                continue
            if node in fusion_group.nodes:
                return True
            if self.recursive_add_node(fusion_group, node.all_input_nodes, visited):
                fusion_group.add_node(node)
                return True
        return False

    def _grow(self, group, node):
        """Take in the neighbours that exchange with a node what is no tensor."""
        self.recursive_add_node(group, group.inputs)
        neighbours = [] if "tensor_meta" in node.meta else list(node.users)
        neighbours += [n for n in node.all_input_nodes if "tensor_meta" not in n.meta]
        for other in neighbours:
            if other.op in CALLABLE_NODE_OPS and other not in group.nodes:
                group.add_node(other)
                group.top_node_idx = min(group.top_node_idx, self.node_index[other])
                self.recursive_add_node(group, group.inputs)

    def __call__(self) -> dict[Node, NodeSet]:
        found: dict[Node, NodeSet] = {}
        for node in list(self.acc_nodes):
            known = node in found or node not in self.acc_nodes
            if known or node.op not in CALLABLE_NODE_OPS or "tensor_meta" in node.meta:
                continue
            group = self.FusionGroup(
                self.node_index[node], {node}, set(node.all_input_nodes), {node}
            )
            while group.nodes_need_process:
                self._grow(group, group.nodes_need_process.pop())
            if group.nodes <= self.acc_nodes:
                found.update(dict.fromkeys(group.nodes, group.nodes))
            else:
                self.acc_nodes -= group.nodes
        return found


# What computes with sizes, and checks them, comes first where it can.
_FIRST = {
    getattr(operator, name)
    for name in ("add", "mul", "sub", "floordiv", "truediv", "mod", "le", "lt", "ge", "gt", "eq",
                 "ne")
} | {rushlight._assert}  # fmt: skip


def _copied_in_order(gm, order, error):
    """Give the module a graph with its nodes in another order."""
    if len(order) < len(gm.graph.nodes):
        left = [node for node in gm.graph.nodes if node not in set(order)]
        raise error(f"Input graph has cycles, unable to add {left}")
    graph, copies = Graph(), {}
    for node in order:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Bring the nodes into an order in which each follows what it uses, breadth first.

    Returns:
        `gm`, with another graph.

    Raises: RuntimeError if nodes use each other.
    """
    missing = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    ready = collections.deque(node for node, count in missing.items() if not count)
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for user in node.users:
            missing[user] -= 1
            if not missing[user]:
                first = user.op == "call_function" and user.target in _FIRST
                (ready.appendleft if first else ready.append)(user)
    return _copied_in_order(gm, order, RuntimeError)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Bring the nodes into an order in which each follows what it uses, as near as can be to the
    one they have.

    Returns:
        `gm`, with another graph.

    Raises: AssertionError if nodes use each other.
    """
    place = {node: i for i, node in enumerate(gm.graph.nodes)}
    nodes = list(place)
    missing = {node: len(node.all_input_nodes) for node in nodes}
    ready = [i for i, node in enumerate(nodes) if not missing[node]]
    order = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for user in node.users:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, place[user])
    return _copied_in_order(gm, order, AssertionError)
