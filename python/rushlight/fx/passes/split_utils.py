"""Cutting a graph by the tags of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

import rushlight
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS, is_node_output_tensor
from rushlight.fx.passes.utils.common import HolderModule, lift_subgraph_as_module
from rushlight.fx.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "Component",
    "getattr_recursive",
    "move_non_tensor_nodes_on_boundary",
    "setattr_recursive",
    "split_by_tags",
]


def getattr_recursive(obj: Any, name: str) -> Any:
    """What an object has at a dotted path; None where there is nothing."""
    for part in name.split("."):
        if isinstance(obj, rushlight.nn.ModuleList):
            obj = obj._modules.get(part)
        else:
            obj = getattr(obj, part, None)
        if obj is None:
            return None
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set what an object has at a dotted path."""
    *prefix, name = attr.split(".")
    for part in prefix:
        obj = getattr(obj, part)
    setattr(obj, name, value)


@dataclass
class Component:
    """One tag's part of a graph."""

    graph: Graph
    order: int  # place of the tag
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)  # what they stand for
    orig_outputs: list[Node] = field(default_factory=list)  # nodes that others use
    getattr_maps: dict[Node, Node] = field(default_factory=dict)  # fetched attributes, copied
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


class _Tagged:
    """A graph's nodes, copied into the components of their tags."""

    def __init__(self, tags: Sequence[str]) -> None:
        self.components = [Component(Graph(), i, str(tag)) for i, tag in enumerate(tags)]
        self.by_tag = dict(zip(tags, self.components))
        self.of: dict[Node, Component] = {}
        self.copies: dict[Node, Node] = {}
        self.used: dict[Node, None] = {}  # nodes that are used by other components, or returned

    def add(self, node: Node) -> None:
        """Copy a call into the component of its tag."""
        if not hasattr(node, "tag"):
            raise AssertionError(f"Node does not have tag: {node.format_node()}")
        component = self.by_tag[node.tag]
        self.of[node] = component
        before = [self.of[n] for n in node.all_input_nodes if n in self.of]
        last = max((c.order for c in before), default=0)
        if component.order < last:
            raise AssertionError(
                f"split_by_tags: {node} of {component.name!r} uses what a later tag computes"
            )
        copied = component.graph.node_copy(node, lambda n: self._inside(component, n))
        copied.tag = node.tag
        self.copies[node] = copied

    def _inside(self, component, node):
        """What stands for a node in a component's graph."""
        if node.op == "get_attr":
            if node not in component.getattr_maps:
                new = component.graph.get_attr(node.target, type_expr=node.type)
                new.meta = dict(node.meta)
                component.getattr_maps[node] = new
            return component.getattr_maps[node]
        if node.op != "placeholder" and self.of[node] is component:
            return self.copies[node]
        if node not in component.orig_inputs:
            new = component.graph.placeholder(node.name, type_expr=node.type)
            new.meta = dict(node.meta)
            component.orig_inputs.append(node)
            component.input_placeholders.append(new)
            self.used[node] = None
        return component.input_placeholders[component.orig_inputs.index(node)]


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """Make a module of the nodes of each tag, which `node.tag` says, and one that calls these.

    Args:
        gm: the module, which stays as it is.
        tags: the tags, in the order in which their modules are called.
        return_fqn_mapping: return {path of an attribute: its path in the new module}, too.
        return_tuple: let the modules return a tuple of one value, too.
        GraphModuleCls: the class of the new module.

    Raises:
        AssertionError: a call has no tag, or uses what a later tag computes.
    """
    tagged, main, values = _Tagged(tags), Graph(), {}
    output = gm.graph.output_node()
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = main.placeholder(node.name, type_expr=node.type)
            values[node].meta = dict(node.meta)
        elif node.op not in ("get_attr", "output"):
            tagged.add(node)
    attributes = [n for n in output.all_input_nodes if n.op == "get_attr"]
    for node in output.all_input_nodes:
        if node.op == "get_attr":
            values[node] = main.get_attr(node.name, type_expr=node.type)
        else:
            tagged.used[node] = None
    for node in tagged.used:
        if node.op != "placeholder":
            tagged.of[node].orig_outputs.append(node)
    paths: dict[str, str] = {}
    for component in tagged.components:
        results = tuple(tagged.copies[n] for n in component.orig_outputs)
        single = len(results) == 1 and not return_tuple
        component.graph.output(results[0] if single else results)
        component.gm, of_it = lift_subgraph_as_module(gm, component.graph, component.name)
        paths.update(of_it)
        call = main.call_module(component.name, tuple(values[n] for n in component.orig_inputs))
        for place, node in enumerate(component.orig_outputs):
            values[node] = call if single else Proxy(call)[place].node
    main.output(map_arg(output.args[0], values.__getitem__))
    main._codegen = gm.graph._codegen
    root = HolderModule({c.name: c.gm for c in tagged.components})
    for node in attributes:
        setattr(root, node.name, getattr_recursive(gm, node.target))
    made = GraphModuleCls(root, main)
    return (made, paths) if return_fqn_mapping else made


class _Boundary:
    """Which of several subgraphs a node is in, and what moves with it into another one."""

    def __init__(self, subgraphs: Sequence[Any]) -> None:
        self.subgraphs = subgraphs
        self.of = {node: i for i, part in enumerate(subgraphs) for node in part.nodes}

    def _in_a_subgraph(self, nodes):
        return [n for n in nodes if n.op in CALLABLE_NODE_OPS and n in self.of]

    def others(self, node: Node) -> set[int]:
        """The other subgraphs that use a node."""
        return {self.of[n] for n in self._in_a_subgraph(node.users)} - {self.of[node]}

    def moving_with(self, node: Node, target: int) -> list[Node] | None:
        """The nodes that go to another subgraph with one, or None if a third one is in between."""
        source, found, left = self.of[node], {}, [node]
        while left:
            current = left.pop()
            if current in found or self.of[current] == target:
                continue
            if self.of[current] != source:
                return None
            found[current] = None
            left += self._in_a_subgraph(current.users)
        return list(found)

    def move(self, node: Node) -> list[Node]:
        """Move a node to the one subgraph that uses it, if there is one; return what may follow."""
        source, targets = self.of[node], self.others(node)
        if len(targets) != 1:
            return []
        (target,) = targets
        moving = self.moving_with(node, target)
        if moving is None:
            return []
        for moved in moving:
            self.subgraphs[source].nodes.remove(moved)
            self.subgraphs[target].nodes.append(moved)
            self.of[moved] = target
        inputs = self._in_a_subgraph(node.all_input_nodes)
        return [n for n in inputs if not is_node_output_tensor(n) and self.of[n] == source]


def move_non_tensor_nodes_on_boundary(subgraphs: list[Any]) -> None:
    """Move nodes whose values are no tensors into the subgraph that uses them.

    Args:
        subgraphs: objects with `nodes`, a list, and `is_acc`: only those with it give nodes away.
            Nodes that several others use stay where they are.
    """
    boundary = _Boundary(subgraphs)
    for number, part in enumerate(subgraphs):
        if not part.is_acc:
            continue
        left = [n for n in part.nodes if not is_node_output_tensor(n) and boundary.others(n)]
        seen = set()
        while left:
            node = left.pop(0)
            if node not in seen and boundary.of[node] == number:
                left += boundary.move(node)
            seen.add(node)
