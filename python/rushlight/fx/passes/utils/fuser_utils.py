"""Fusing nodes: a set of them becomes a module that is called in their place."""

from __future__ import annotations

import heapq

from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.fx.passes.tools_common import stable_topological_sort
from rushlight.fx.passes.utils.common import lift_subgraph_as_module
from rushlight.fx.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.fx.graph_module import GraphModule

__all__ = [
    "erase_nodes",
    "fuse_as_graphmodule",
    "fuse_by_partitions",
    "insert_subgm",
    "topo_sort",
    "validate_partition",
]


def topo_sort(nodes: list[Node]) -> list[Node]:
    """The nodes, each behind those of them that it uses; else in the order given.

    Raises: AssertionError if nodes use each other.
    """
    place = {node: i for i, node in enumerate(nodes)}
    missing = {node: sum(n in place for n in node.all_input_nodes) for node in nodes}
    ready = [place[node] for node in nodes if not missing[node]]
    heapq.heapify(ready)
    found = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        found.append(node)
        for user in node.users:
            if user in missing:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, place[user])
    if len(found) != len(nodes):
        raise AssertionError("topo_sort: nodes use each other's values")
    return found


def validate_partition(partition: list[Node]) -> bool:
    """Can the nodes be one call? Not if something outside uses one of them and is used by
    another.
    """
    inside = set(partition)
    left = [user for node in inside for user in node.users if user not in inside]
    seen = set()
    while left:
        node = left.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            left.extend(node.users)
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: list[Node],
    module_name: str,
    partition_lookup_table: dict[Node, int | None] | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Make a module of copies of some nodes of a graph.

    Args:
        gm: the module, which stays as it is.
        nodes: the nodes, each behind those that it uses.
        module_name: name of the new module's class.
        partition_lookup_table: a dict whose keys are the nodes.
        always_return_tuple: return a tuple of one value, too.

    Returns:
        The module, the nodes of `gm` that it takes, and those of `nodes` that others use.

    Raises: AssertionError if a node is not of `gm`, or the nodes cannot be one call.
    """
    for node in nodes:
        if node.graph.owning_module is not gm or node._erased:
            raise AssertionError(f"fuse_as_graphmodule: {node} is not of the module's graph")
    if not validate_partition(nodes):
        raise AssertionError(
            "fuse_as_graphmodule: something outside lies between nodes that are to be one call"
        )
    inside = dict.fromkeys(nodes) if partition_lookup_table is None else partition_lookup_table
    graph, placeholders, copies, outputs = Graph(), {}, {}, {}

    def value_of(node):
        if node in inside:
            return copies[node]
        if node not in placeholders:
            placeholders[node] = graph.placeholder(node.name, type_expr=node.type)
            placeholders[node].meta = dict(node.meta)
        return placeholders[node]

    for node in nodes:
        # Placeholders come into being while the arguments are copied, before the node itself.
        copies[node] = graph.node_copy(node, value_of)
    for node in nodes:
        if any(user not in inside for user in node.users):
            outputs[node] = copies[node]
    results = tuple(outputs.values())
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, class_name=module_name)
    return fused, tuple(placeholders), tuple(outputs)


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Call a module in a graph, and let its results stand for nodes.

    Args:
        gm: the module with the graph.
        sub_gm: the module to call, which becomes an attribute, named as its class.
        orig_inputs: the arguments.
        orig_outputs: the nodes whose users take the results instead.
        insertion_point: node behind which it is called; by default the last of `orig_outputs`.

    Returns:
        `gm`.
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    if insertion_point is None:
        behind = (node for node in reversed(gm.graph.nodes) if node in orig_outputs)
        insertion_point = next(behind, None)
        if insertion_point is None:
            raise AssertionError("insert_subgm: without orig_outputs, insertion_point is needed")
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, args=orig_inputs)
    if not orig_outputs:
        return gm
    with gm.graph.inserting_before(call.next):
        returned = sub_gm.graph.output_node().args[0]
        if len(orig_outputs) == 1 and not isinstance(returned, tuple):
            orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
            return gm
        for place, node in enumerate(orig_outputs):
            node.replace_all_uses_with(Proxy(call)[place].node, propagate_meta=True)
        call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Erase nodes, the last first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Put a call of a module in the place of each partition.

    Args:
        gm: the module, which is changed.
        partitions: dicts whose keys are the nodes of each.
        prefix: what the modules are called, with a number behind.
        always_return_tuple: let them return a tuple of one value, too.

    Returns:
        `gm`.
    """
    for number, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        fused, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{number}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, fused, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
