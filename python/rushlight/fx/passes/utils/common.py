"""Parts of graphs as modules of their own, and whether two graphs are the same."""

from __future__ import annotations

from rushlight.fx.graph_module import GraphModule
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.fx.graph import Graph

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module that has others: `d`, by name."""

    def __init__(self, d: dict[str, Module | None]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """Make a module of a graph whose nodes were copied from another module's.

    Args:
        gm: the module, which has what the nodes name.
        subgraph: the graph.
        comp_name: what the new module will be called in another one.
        class_name: name of the new module's class.

    Returns:
        The module, and {path of an attribute in `gm`: its path with `comp_name`}.
    """
    root, paths = HolderModule({}), {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        *prefix, name = node.target.split(".")
        source, target = gm, root
        for part in prefix:
            if not hasattr(target, part):
                target.add_module(part, HolderModule({}))
            source, target = getattr(source, part), getattr(target, part)
        setattr(target, name, getattr(source, name))
        paths[node.target] = f"{comp_name}.{node.target}"
    return GraphModule(root, subgraph, class_name), paths


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Do two graphs compute the same by the same calls, with as many inputs and outputs?"""
    from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher

    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
