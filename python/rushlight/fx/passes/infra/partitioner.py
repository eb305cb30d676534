"""Finding partitions of nodes that a backend can compute, as large as they can be."""

from __future__ import annotations

import itertools

from rushlight.fx._names import qualified_name
from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node
    from rushlight.fx.passes.operator_support import OperatorSupportBase

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """Nodes, each with its place in the graph counted from the end, or None."""

    def __init__(
        self,
        id: int | None = None,
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        listed = list(nodes or ())
        orders = [None] * len(listed) if node_orders is None else list(node_orders)
        if len(orders) != len(listed):
            raise AssertionError(
                f"Partition: {len(listed)} nodes, and places for {len(orders)} of them"
            )
        self.nodes: dict[Node, int | None] = dict(zip(listed, orders))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


def _is_call_of(node, names):
    return node.op == "call_function" and qualified_name(node.target) in names


class _Merging:
    """Partitions while they are merged: two may be one if no path leaves them and comes back."""

    def __init__(self, graph_module: GraphModule) -> None:
        self.nodes = list(graph_module.graph.nodes)
        self.behind: dict[Node, set[Node]] = {}  # all that depends on a node
        for node in reversed(self.nodes):
            found = set(node.users)
            for user in node.users:
                found |= self.behind[user]
            self.behind[node] = found
        self.of: dict[Node, int] = {}
        self.partitions: dict[int, Partition] = {}

    def add(self, node: Node, number: int, order: int) -> None:
        """Begin a partition with one node."""
        self.of[node] = number
        self.partitions[number] = Partition(number, [node], [order])

    def _comes_back(self, inside):
        """Does a path, through nodes and through partitions, leave some nodes and come back?"""
        left = [user for node in inside for user in node.users if user not in inside]
        seen = set()
        while left:
            node = left.pop()
            if node in inside:
                return True
            if node in seen:
                continue
            seen.add(node)
            if not inside.isdisjoint(self.behind[node]):
                return True
            left.extend(node.users)
            if node in self.of:  # a partition is one call: all of it is computed at once
                others = self.partitions[self.of[node]].nodes
                left.extend(user for other in others for user in other.users)
        return False

    def merge(self, one: int, other: int) -> int:
        """Make two partitions one, if they can be; return the number of what has the first."""
        a, b = self.partitions[one], self.partitions[other]
        if self._comes_back({**a.nodes, **b.nodes}.keys()):
            return one
        kept, gone = (a, b) if len(a.nodes) >= len(b.nodes) else (b, a)
        kept.nodes.update(gone.nodes)
        self.of.update(dict.fromkeys(gone.nodes, kept.id))
        del self.partitions[gone.id]
        return kept.id

    def move(self, node: Node, number: int | None) -> None:
        """Move a node to another partition, or to none."""
        if node in self.of:
            self.partitions[self.of.pop(node)].remove_node(node)
        if number is not None:
            self.of[node] = number
            self.partitions[number].add_node(node)


class CapabilityBasedPartitioner:
    """Cuts a graph into what a backend computes and what it does not.

    Args:
        graph_module: the module.
        operator_support: says which nodes the backend computes.
        allows_single_node_partition: whether a partition may be a single call.
        non_compute_ops: names of functions that do not count as one, besides views and `getitem`.
        allowed_single_node_partition_ops: names of functions that may be alone nevertheless.
        skip_horizontal_fusion: put only nodes together of which one uses the other.
    """

    graph_module: Any
    operator_support: Any

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops: Sequence[str] = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops: Sequence[str] = list(
            allowed_single_node_partition_ops or ()
        )
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def propose_partitions(self) -> list[Partition]:
        """The partitions, none of which needs to be called before and after another one."""
        merging = _Merging(self.graph_module)
        submodules = dict(self.graph_module.named_modules())
        numbers, first = itertools.count(), {}  # a partition's earliest number
        for order, node in enumerate(reversed(merging.nodes)):
            candidates = {}
            if self.operator_support.is_node_supported(submodules, node):
                number = next(numbers)
                first[number] = number
                merging.add(node, number, order)
                candidates[number] = None
                if self.skip_horizontal_fusion:
                    candidates |= {merging.of[u]: None for u in node.users if u in merging.of}
            if not self.skip_horizontal_fusion:
                candidates |= dict.fromkeys(sorted(first, key=first.get))
            if len(candidates) > 1:
                current, *others = candidates
                for other in others:
                    current = self._merged(merging, first, current, other)
        for partition in merging.partitions.values():
            ordered = sorted(partition.nodes.items(), key=lambda pair: -pair[1])
            partition.nodes = dict(ordered)
        self._keep_items_with_tuples(merging)
        found = merging.partitions
        if not self.allows_single_node_partition:
            found = {k: p for k, p in found.items() if self._computes_enough(p)}
        return [partition for partition in found.values() if partition.size()]

    @staticmethod
    def _merged(merging, first, current, other):
        merged = merging.merge(current, other)
        gone = other if merged == current else current
        if gone not in merging.partitions:
            first[merged] = min(first[merged], first.pop(gone))
        return merged

    @staticmethod
    def _keep_items_with_tuples(merging):
        """What takes the elements of a tuple is in the partition of what makes the tuple."""
        moved = True
        while moved:
            moved = {}
            for node in merging.nodes:
                if all(_is_call_of(user, ("_operator.getitem",)) for user in node.users):
                    home = merging.of.get(node)
                    moved |= {u: home for u in node.users if merging.of.get(u) != home}
            for node, home in moved.items():
                merging.move(node, home)

    def _computes_enough(self, partition):
        skipped = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        count = 0
        for node in partition.nodes:
            if node.op == "call_function":
                count += not _is_call_of(node, skipped)
                count += _is_call_of(node, self.allowed_single_node_partition_ops)
        return count > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Put a call of a module in the place of each partition; changes and returns the module."""
        nodes = [partition.nodes for partition in partitions]
        return fuse_by_partitions(self.graph_module, nodes, prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take calls of `non_compute_ops` out of partitions where they come first or last."""
        skipped = set(self.non_compute_ops)
        for partition in partitions:
            inside = partition.nodes
            for neighbours in ("all_input_nodes", "users"):
                outer = []
                ordered = list(inside) if neighbours == "all_input_nodes" else list(inside)[::-1]
                for node in ordered:
                    nexts = getattr(node, neighbours)
                    free = all(n not in inside or n in outer or n.op == "placeholder"
                               for n in nexts)  # fmt: skip
                    if _is_call_of(node, skipped) and free:
                        outer.append(node)
                for node in outer:
                    partition.remove_node(node)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Find the partitions, and put a call of a module in the place of each."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)
