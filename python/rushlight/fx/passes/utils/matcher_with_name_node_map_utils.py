"""Patterns that return, besides, names for some of their nodes."""

from __future__ import annotations

from rushlight.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.fx.graph import Graph
    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _without_names(gm):
    """Take the dict of names out of what a pattern returns: {name: node}."""
    output = gm.graph.output_node()
    returned = output.args[0]
    spec = _out_spec(gm)
    if spec is not None:
        returned = tree_unflatten(list(returned), spec)
    if not isinstance(returned, (tuple, list)) or len(returned) < 2:
        raise AssertionError(
            "SubgraphMatcherWithNameNodeMap: the pattern must return two values or more, the last "
            "of them a dict of names"
        )
    *values, names = returned
    if not isinstance(names, dict):
        raise AssertionError(
            "SubgraphMatcherWithNameNodeMap: the last value that the pattern returns must be a "
            f"dict of names, got {type(names).__name__}"
        )
    values, kept = tree_flatten(values)
    output.args = (values,)
    codegen = gm.graph._codegen
    if getattr(codegen, "pytree_info", None) is not None:
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=kept)
    gm.recompile()
    return gm, names


def _out_spec(gm):
    codegen = gm.graph._codegen
    if getattr(codegen, "pytree_info", None) is not None:
        return codegen.pytree_info.out_spec
    program = getattr(codegen, "program", None)  # the module of an exported program
    return None if program is None else program.out_spec


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A matcher whose matches have `name_node_map`: {name: the node that it is}.

    Args:
        pattern_gm: a module that returns its values and a dict {name: value} behind them, which
            is taken out.
        match_output, match_placeholder, remove_overlapping_matches, ignore_literals: see
            `SubgraphMatcher`.

    Raises: AssertionError if the module returns no dict of names.
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, names = _without_names(pattern_gm)
        self.name_node_map: dict[str, Node] = names
        super().__init__(
            pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches,
            ignore_literals,
        )  # fmt: skip
        self._owner = pattern_gm  # alive, as the pattern's nodes name its attributes

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """See `SubgraphMatcher.match`."""
        found = super().match(graph, node_name_match)
        for match in found:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return found
