"""Layers in a row of a graph, made one module."""

from __future__ import annotations

from rushlight import nn
from rushlight.ao.quantization.fx._matching import matches
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.ao.quantization.backend_config.backend_config import BackendConfig


def set_submodule(model: nn.Module, path: str, module: nn.Module) -> None:
    """Replace a module of a model."""
    parent, _, own = path.rpartition(".")
    setattr(model.get_submodule(parent), own, module)


def fuse_graph(model: GraphModule, is_qat: bool, backend_config: BackendConfig) -> None:
    """Replace what matches the patterns that are fused by the fused modules, in place."""
    modules = dict(model.named_modules(remove_duplicate=False))
    found = matches(
        list(model.graph.nodes), modules, backend_config, lambda config: bool(config.fuser_method)
    )
    for match in dict.fromkeys(found.values()):
        root, last = match.root, match.last
        if match.config._root_node_getter is not None or root.op != "call_module":
            raise NotImplementedError(
                f"fuse_fx: {match.pattern}: patterns with a root of their own are not fused"
            )
        layers = [_layer(node, modules, modules[root.target].training) for node in match.nodes]
        fused = match.config.fuser_method(is_qat, *reversed(layers))
        set_submodule(model, root.target, fused.train(modules[root.target].training))
        if last is not root:
            last.replace_all_uses_with(root)
        for node in match.nodes[:-1]:
            model.graph.erase_node(node)
    model.graph.lint()
    model.recompile()


def _layer(node: Node, modules: dict[str, nn.Module], training: bool) -> Any:
    if node.op == "call_module":
        return modules[node.target]
    if node.target is F.relu:
        inplace = node.args[1] if len(node.args) > 1 else node.kwargs.get("inplace", False)
        return nn.ReLU(inplace).train(training)
    return node.target
