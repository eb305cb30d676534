"""Cutting a graph into partitions, each of which becomes a module that the new graph calls."""

from __future__ import annotations

from rushlight.amp.autocast_mode import _enter_autocast, _exit_autocast
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule, _get_attr
from rushlight.fx.node import map_arg
from rushlight.fx.proxy import Proxy
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.fx.node import Node

__all__ = ["Partition", "split_module", "split_module_simple"]


_MODES = (_enter_autocast, _exit_autocast)


class Partition:
    """A part of a graph: its nodes, what comes in and goes out, by names, and its new graph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name: str = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph: Graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n"
            f" outputs: {self.outputs},\n partitions depended on: {self.dependencies},\n"
            f" partition dependents: {self.dependents}"
        )


def split_module(
    m: GraphModule,
    root_m: Module | None,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Cut a module's graph into partitions.

    Args:
        m: the module, which stays as it is.
        root_m: not read: `m` has all that its graph names.
        split_callback: which partition a node goes to.
        qualname_map: dict that is told what the targets of nodes in the new modules were called.
        keep_original_order: call the partitions in the order of their first nodes, instead of one
            in which each follows those that it needs.
        keep_original_node_name: keep the names of nodes in the partitions.
        keep_original_input_name: name the inputs of partitions as the nodes that they are; else
            arg_0, arg_1 ...
        partition_affix: "pp" for partitions that are called submod_pp_0, submod_pp_1 ...
        tuple_return: let partitions return a tuple where they return one value, too.

    Returns:
        A module that calls submod_0, submod_1 ..., one for each partition.

    Raises:
        RuntimeError: partitions need each other's results.

    Example:
        >>> from rushlight.fx.passes.split_module import split_module
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x).sum())
        >>> split = split_module(traced, None, lambda node: int(node.op == "call_method"))
        >>> print(split.code.strip())
        def forward(self, x):
            submod_0 = self.submod_0(x);  x = None
            submod_1 = self.submod_1(submod_0);  submod_0 = None
            return submod_1
    """
    del root_m
    split = _Split(m, split_callback, partition_affix)
    split.assign()
    split.record_uses()
    order = split.sorted()
    split.enter_autocast()
    for name in order:
        split.add_inputs(split.partitions[name], keep_original_input_name)
    split.copy_nodes(keep_original_node_name, qualname_map)
    split.leave_autocast()
    names = list(split.partitions) if keep_original_order else order
    base = _Base(m, keep_original_node_name)
    return base.assembled(split, names, bool(keep_original_order), tuple_return)


class _Split:
    """The partitions of one graph."""

    def __init__(self, module: GraphModule, callback: Any, affix: str | None) -> None:
        self.module, self.callback, self.affix = module, callback, affix
        self.partitions: dict[str, Partition] = {}
        self.of: dict[Node, str] = {}  # the partition of a node
        self.nodes = {node.name: node for node in module.graph.nodes}
        self.autocasts: dict[Node, set[int]] = {}  # where they are entered -> partitions inside
        self.exits: dict[Node, Node] = {}

    def _name(self, index: Any) -> str:
        return str(index) if self.affix is None else f"{self.affix}_{index}"

    def assign(self) -> None:
        """Ask which partition each node goes to, and in which partitions autocast is active."""
        active = []
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            index = self.callback(node)
            name = self._name(index)
            partition = self.partitions.setdefault(name, Partition(name))
            partition.node_names.append(node.name)
            self.of[node] = name
            if node.target is _enter_autocast:
                active.append(node)
                self.autocasts[node] = set()
            elif node.target is _exit_autocast:
                self.autocasts[node.args[0]].add(index)
                active.remove(node.args[0])
                self.exits[node.args[0]] = node
            for entered in active:
                self.autocasts[entered].add(index)
        if active:
            raise AssertionError(f"split_module: {active} enters autocast, and nothing leaves it")
        if self.autocasts:
            indices = [self.callback(node) for node in self.of]
            if indices != sorted(indices):
                raise AssertionError(
                    "split_module: where the graph enters autocast, later nodes must be of later "
                    f"partitions, got {indices}"
                )

    def record_uses(self) -> None:
        """Note which values go from one partition to another, or out."""
        for node in self.module.graph.nodes:
            if node.op == "output":
                map_arg(node.args[0], lambda used: self._record_use(used, None))
            elif node.op not in ("placeholder", "get_attr") and node.target not in _MODES:
                self._record_uses_by(node)

    def _record_uses_by(self, node):
        map_arg((node.args, node.kwargs), lambda used: self._record_use(used, node))

    def _record_use(self, used, user):
        made, needed = self.of.get(used), self.of.get(user)
        if made == needed:
            return used
        if made is not None:
            self.partitions[made].outputs.setdefault(used.name)
            if needed is not None:
                self.partitions[made].dependents.setdefault(needed)
        if needed is not None:
            self.partitions[needed].inputs.setdefault(used.name)
            if made is not None:
                self.partitions[needed].dependencies.setdefault(made)
        return used

    def sorted(self) -> list[str]:
        """The partitions, each behind those whose values it needs."""
        left = {name: set(p.dependencies) for name, p in self.partitions.items()}
        ready = [name for name, needs in left.items() if not needs]
        found = []
        while ready:
            name = ready.pop()
            found.append(name)
            for dependent in self.partitions[name].dependents:
                left[dependent].discard(name)
                if not left[dependent]:
                    ready.append(dependent)
        if len(found) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return found

    def enter_autocast(self) -> None:
        """Let the partitions behind that in which autocast is entered enter it too."""
        for node, indices in self.autocasts.items():
            for index in sorted(indices)[1:]:
                partition = self.partitions[self._name(index)]
                entered = partition.graph.create_node(
                    node.op, node.target, node.args, {}, type_expr=node.type
                )
                entered.meta = dict(node.meta)
                partition.environment[node] = entered

    def leave_autocast(self) -> None:
        """Let all partitions but the last in which autocast is active leave it."""
        for node in reversed(self.autocasts):
            for index in sorted(self.autocasts[node])[:-1]:
                partition, left = self.partitions[self._name(index)], self.exits[node]
                new = partition.graph.create_node(
                    left.op, left.target, (partition.environment[node],), {}, type_expr=left.type
                )
                new.meta = dict(left.meta)

    def add_inputs(self, partition: Partition, keep_names: bool) -> None:
        """Make the placeholders of a partition; modules that are arguments become its own."""
        inputs, modules = {}, []
        for name in partition.inputs:
            node = self.nodes[name]
            if node.op == "get_attr" and isinstance(_get_attr(self.module, node.target), Module):
                modules.append(node)
                continue
            wish = name if keep_names else f"arg_{len(inputs)}"
            inputs[name] = None
            new = partition.graph.placeholder(wish, type_expr=node.type)
            new.meta = dict(node.meta)
            partition.environment[node] = new
        for node in modules:
            new = partition.graph.get_attr(node.target)
            partition.targets[node.target] = _get_attr(self.module, node.target)
            new.meta = dict(node.meta)
            partition.environment[node] = new
        partition.inputs = inputs

    def copy_nodes(self, keep_names: bool | None, qualname_map: dict[str, str] | None) -> None:
        """Copy the nodes into the graphs of their partitions."""
        for node, name in self.of.items():
            partition = self.partitions[name]
            known, target = partition.environment, node.target
            if node.op == "call_module":
                target = node.target.replace(".", "_")
                partition.targets[target] = _get_attr(self.module, node.target)
                if qualname_map is not None:
                    qualname_map[f"{partition.submod_name}.{target}"] = node.target
            new = partition.graph.create_node(
                node.op, target,
                map_arg(node.args, lambda n, known=known: known[n]),
                map_arg(node.kwargs, lambda n, known=known: known[n]),
                node.name if keep_names else None, node.type,
            )  # fmt: skip
            new.meta = dict(node.meta)
            known[node] = new


class _Base:
    """The graph that calls the partitions."""

    def __init__(self, module: GraphModule, keep_names: bool | None) -> None:
        self.module, self.keep_names = module, keep_names
        self.graph, self.values, self.attributes = Graph(), {}, {}

    def copy(self, node: Node) -> None:
        """Copy a placeholder, or the fetching of an attribute."""
        if node.name in self.values:
            return
        if node.op == "placeholder":
            target = node.name if self.keep_names else node.target
            new = self.graph.create_node("placeholder", target, node.args, type_expr=node.type)
        elif node.op == "get_attr":
            new = self.graph.get_attr(node.target)
            self.attributes[node.target] = _get_attr(self.module, node.target)
        else:
            return
        new.meta = dict(node.meta)
        self.values[node.name] = new

    def assembled(
        self, split: _Split, names: list[str], original_order: bool, tuple_return: bool
    ) -> GraphModule:
        """The module that calls the partitions in the order of `names`."""
        nodes = list(self.module.graph.nodes)
        for node in nodes:
            if not original_order or node.op == "placeholder" or not names:
                self.copy(node)
        for name in names:
            partition = split.partitions[name]
            for used in partition.inputs if original_order else ():
                self.copy(split.nodes[used])
            self._call(partition, split.nodes, tuple_return)
        output = self.module.graph.output_node()
        for node in output.all_input_nodes:
            self.copy(node)
        self.graph.output(map_arg(output.args[0], lambda n: self.values[n.name]))
        made = GraphModule(self.attributes, self.graph)
        made.meta["partition_names"] = {p.submod_name for p in split.partitions.values()}
        return made

    def _call(self, partition, nodes, tuple_return):
        results = tuple(partition.environment[nodes[name]] for name in partition.outputs)
        single = len(results) == 1 and not tuple_return
        partition.graph.output(results[0] if single else results)
        self.attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        call = self.graph.call_module(
            partition.submod_name, tuple(self.values[name] for name in partition.inputs)
        )
        for place, name in enumerate(partition.outputs):
            self.values[name] = call if single else Proxy(call)[place].node


def split_module_simple(
    m: GraphModule,
    node_to_partition: dict[Node, int],
    *,
    partition_affix: str | None = None,
) -> GraphModule:
    """Cut a module's graph into partitions that are called in the order of their first nodes.

    Args:
        m: a module whose graph fetches no attributes and changes no modes.
        node_to_partition: the partition of each call.
        partition_affix: see `split_module`.

    Raises:
        ValueError: the graph fetches attributes or calls modules, for which `split_module` is.
    """
    others = [n for n in m.graph.nodes if n.op in ("get_attr", "call_module")]
    if others:
        raise ValueError(
            f"split_module_simple: {others[0]} is of the module itself; use split_module"
        )
    return split_module(
        m, None, node_to_partition.__getitem__, keep_original_order=True,
        partition_affix=partition_affix,
    )  # fmt: skip
