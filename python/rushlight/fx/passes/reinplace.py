"""Letting operations write into operands that nothing needs any more."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.fx.interpreter import Interpreter
from rushlight.library._operator import OpOverload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node

__all__ = ["reinplace"]


class _Values(Interpreter):
    """Runs a graph and keeps the values of all nodes."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        self.values[n] = super().run_node(n)
        return self.values[n]


def _in_place(target):
    """The operation in place that belongs to one of `torch.ops`, or None."""
    if not isinstance(target, OpOverload) or target._opname.endswith("_"):
        return None
    namespace = getattr(rushlight.ops, target.namespace)
    try:
        return getattr(getattr(namespace, f"{target._opname}_"), target._overloadname)
    except AttributeError:
        return None


class _Memory:
    """Which nodes' values lie in the same memory."""

    def __init__(self, values: dict[Node, Any]) -> None:
        self.of = {n: self._key(v) for n, v in values.items() if isinstance(v, Tensor)}

    @staticmethod
    def _key(value):
        return value.untyped_storage().data_ptr() if value.numel() else id(value)

    def sharing(self, node: Node) -> set[Node]:
        """The nodes whose values lie where that of one lies."""
        key = self.of[node]
        return {n for n, k in self.of.items() if k == key}

    def join(self, node: Node, other: Node) -> None:
        """A node's value lies in another one's memory from now on."""
        gone, key = self.of[node], self.of[other]
        self.of = {n: key if k == gone else k for n, k in self.of.items()}


def _may_be_overwritten(node, values, memory, place):
    """May a node's value be written over its first operand?"""
    first, result = node.args[0], values[node]
    value = values.get(first)
    if not isinstance(value, Tensor) or not isinstance(result, Tensor):
        return False
    same = value.shape == result.shape and value.dtype is result.dtype
    overlaps = any(s == 0 and n > 1 for n, s in zip(value.shape, value.stride()))
    if not same or overlaps:
        return False
    sharing = memory.sharing(first)
    if any(n.op in ("placeholder", "get_attr") for n in sharing):
        return False
    others = [n for n in node.all_input_nodes if n is not first]
    if sharing.intersection(others) or node in sharing or list(node.args).count(first) > 1:
        return False
    return all(place[user] <= place[node] or user in sharing for n in sharing for user in n.users)


def reinplace(gm: GraphModule, *sample_args: Any) -> GraphModule:
    """Replace operations by those in place, where nothing uses their first operand later.

    Args:
        gm: a module whose graph has operations of `torch.ops`, such as `make_fx` records; it is
            changed.
        sample_args: an example, on which it runs: what lies in the same memory is seen there.

    Returns:
        `gm`.

    Example:
        >>> from rushlight.fx.experimental.proxy_tensor import make_fx
        >>> from rushlight.fx.passes.reinplace import reinplace
        >>> gm = reinplace(make_fx(lambda x: x.cos().add(1))(torch.ones(2)), torch.ones(2))
        >>> [node.name for node in gm.graph.nodes if "add_" in str(node.target)]
        ['add']
    """
    run = _Values(gm)
    run.run(*sample_args)
    memory = _Memory(run.values)
    place = {node: i for i, node in enumerate(gm.graph.nodes)}
    for node in gm.graph.nodes:
        target = _in_place(node.target) if node.op == "call_function" else None
        first = node.args[0] if node.args else None
        if target is None or type(first) is not type(node):
            continue
        if _may_be_overwritten(node, run.values, memory, place):
            node.target = target
            memory.join(node, first)
            node.replace_all_uses_with(first)
    gm.recompile()
    return gm
