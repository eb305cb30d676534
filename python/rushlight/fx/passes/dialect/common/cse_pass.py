"""Computing what is asked for several times once."""

from __future__ import annotations

import rushlight
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import map_arg
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_RANDOM = (
    "dropout", "_fused_dropout", "_standard_gamma", "bernoulli", "multinomial", "native_dropout",
    "normal", "poisson", "binomial", "rrelu", "rand_like", "rand", "randint", "randn", "randperm",
)  # fmt: skip
_IN_PLACE = ("add_", "sub_", "mul_", "div_", "pow_", "lerp_", "relu_", "sigmoid_", "tanh_")


def get_CSE_banned_ops() -> set[Any]:
    """The operations of `torch.ops.aten` that are not the same twice: random ones, and in place."""
    aten = rushlight.ops.aten
    return {getattr(aten, name) for name in (*_RANDOM, *_IN_PLACE) if hasattr(aten, name)}


def _hashable(value):
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(_hashable, value))
    if isinstance(value, dict):
        return "dict", tuple((k, _hashable(v)) for k, v in value.items())
    if isinstance(value, slice):
        return "slice", tuple(map(_hashable, (value.start, value.stop, value.step)))
    return type(value), value


class CSEPass(PassBase):
    """Lets calls of the same function with the same arguments be one node.

    Args:
        banned_ops: functions that are not the same twice; see `get_CSE_banned_ops`.

    Example:
        >>> from rushlight.fx.passes.dialect.common.cse_pass import CSEPass
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.cos(x) + torch.cos(x))
        >>> result = CSEPass()(traced)
        >>> result.modified, len(result.graph_module.graph.nodes)
        (True, 4)
    """

    def __init__(self, banned_ops: set[Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self.banned_ops: set[Any] = set() if banned_ops is None else banned_ops

    def call(self, graph_module: GraphModule) -> PassResult:
        """A new module, or the same if nothing is computed twice."""
        graph, copies, known = Graph(), {}, {}
        for node in graph_module.graph.nodes:
            packet = getattr(node.target, "overloadpacket", node.target)
            key = None
            if node.op not in ("placeholder", "output", "get_attr") and not (
                packet in self.banned_ops or node.target in self.banned_ops
            ):
                given = map_arg((node.args, node.kwargs), copies.__getitem__)
                key = node.op, node.target, _hashable(given)
            if key is not None and key in known:
                copies[node] = known[key]
                continue
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if key is not None:
                known[key] = copies[node]
        if len(graph.nodes) == len(graph_module.graph.nodes):
            return PassResult(graph_module, False)
        return PassResult(GraphModule(graph_module, graph), True)
