"""Making a model faster for inference: batch norms go into the layers before them, dropout goes."""

from __future__ import annotations

import copy

from rushlight import _absent, nn
from rushlight.fx._symbolic_trace import Tracer, symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Transformer
from rushlight.fx.node import Node
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def matches_module_pattern(
    pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]
) -> bool:
    """Do a node and its first argument call modules of exactly two types?

    Args:
        pattern: the type of what the argument calls, and of what the node calls.
        node: the node.
        modules: {path: module}.
    """
    if not node.args:
        return False
    return all(
        isinstance(n, Node) and n.op == "call_module" and type(modules.get(n.target)) is kind
        for kind, n in zip(pattern, (node.args[0], node))
    )


def replace_node_module(node: Node, modules: dict[str, nn.Module], new_module: nn.Module) -> None:
    """Put another module where that is which a node calls, in the dict too."""
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


_FUSED = (
    (nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval),
    (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
    (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
    (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval),
)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Put batch norms into the convolutions and linear layers before them.

    Args:
        model: a model in eval mode.
        inplace: change its layers; else a copy is changed.
        no_trace: take the graph of a `GraphModule` as it is.

    Example:
        >>> from rushlight.fx.experimental.optimization import fuse
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
        >>> [node.name for node in fuse(model).graph.nodes]
        ['input_1', '_0', 'output']
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules, graph = dict(traced.named_modules()), copy.deepcopy(traced.graph)
    for layer, norm, fused in _FUSED:
        for node in graph.nodes:
            if not matches_module_pattern((layer, norm), node, modules):
                continue
            before = node.args[0]
            if len(before.users) > 1 or not modules[node.target].track_running_stats:
                continue
            new = fused(modules[before.target], modules[node.target])
            replace_node_module(before, modules, new)
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _WithoutDropout(Transformer):
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[target], nn.Dropout):
            (value,) = args
            return value
        return super().call_module(target, args, kwargs)


def remove_dropout(model: nn.Module) -> GraphModule:
    """A model without its `nn.Dropout` layers."""
    return _WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """A module that computes some nodes of a graph.

    Args:
        orig_module: has the attributes that they name.
        nodes: the nodes, in order.
        inputs: what it takes.
        outputs: what it returns, in a list.
    """
    graph, copies = Graph(), {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def reset_modules(
    nodes: Iterable[Node], modules: dict[str, nn.Module], old_modules: dict[nn.Module, nn.Module]
) -> None:
    """Put back what modules were replaced: {the module that is there: the one before}."""
    for node in nodes:
        if node.op == "call_module" and modules[node.target] in old_modules:
            replace_node_module(node, modules, old_modules[modules[node.target]])


class MklSubgraph:
    """Nodes that are to be computed in one layout."""

    def __init__(self, fx_graph: Graph) -> None:
        self.fx_graph = fx_graph
        self.nodes: list[Node] = []
        self.start_nodes: list[Node] = []
        self.end_nodes: list[Node] = []


def use_mkl_length(graph: MklSubgraph) -> bool:
    """Is a subgraph worth a layout of its own? Of three nodes and more."""
    return len(graph.nodes) > 2


class UnionFind:
    """Sets of numbers below `n` that are joined."""

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size: list[int] = [0] * n

    def make_set(self, v: int) -> None:
        """Begin a set of one."""
        self.parent[v], self.size[v] = v, 1

    def find(self, v: int) -> int:
        """The number that stands for the set of one.

        Raises: AssertionError if it is in none.
        """
        root = v
        while self.parent[root] != root:
            root = self.parent[root]
            if root is None:
                raise AssertionError(f"UnionFind: {v} is in no set")
        while v != root:
            self.parent[v], v = root, self.parent[v]
        return root

    def join(self, a: int, b: int) -> int | None:
        """Join two sets; return the number that stands for them if they were one before."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return None


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> GraphModule:
    """Fuse batch norms and remove dropout.

    Args:
        model: a model in eval mode; it stays as it is.
        pass_config: {"conv_bn_fuse": bool, "remove_dropout": bool}, both True by default.
            "mkldnn_layout_optimize" may be False.
        tracer: class of the tracer that records the result.

    Raises:
        NotImplementedError: `pass_config` has a heuristic for layouts of MKL-DNN: there are none.
            Layouts are chosen while a model runs.
        ValueError: it names another pass.
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize": False}
    unknown = set(pass_config or ()) - set(config)
    if unknown:
        raise ValueError(f"optimize_for_inference: there is no pass {sorted(unknown)}")
    config.update(pass_config or {})
    if config["mkldnn_layout_optimize"]:
        raise NotImplementedError(
            "optimize_for_inference: mkldnn_layout_optimize: there are no layouts of MKL-DNN; the "
            "layout of each tensor is chosen while a model runs"
        )
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    recording = tracer()
    graph = recording.trace(copy.deepcopy(model))
    return GraphModule(recording.root, graph)


_ABSENT = _absent.refused(
    dict.fromkeys(
        ("modules_to_mkldnn", "gen_mkl_autotuner"),
        "there are no layouts of MKL-DNN; the layout of each tensor is chosen while a model runs",
    )
)
globals().update(_ABSENT)

__all__ = [
    "MklSubgraph",
    "UnionFind",
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
    "reset_modules",
    "use_mkl_length",
    *_ABSENT,
]
