"""Finding a pattern, itself a graph, in a graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight import Tensor
from rushlight.fx.graph_module import _get_attr
from rushlight.fx.node import Node
from rushlight.library._operator import OpOverload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph import Graph

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One occurrence of a pattern."""

    anchors: list[Node]  # nodes of the pattern that only its output uses
    nodes_map: dict[Node, Node] = field(default_factory=dict)  # node of the pattern -> what it is
    placeholder_nodes: list[Node] = field(default_factory=list)  # what the arguments are
    returning_nodes: list[Node] = field(default_factory=list)  # what is returned
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, dict(self.nodes_map), list(self.placeholder_nodes),
            list(self.returning_nodes),
        )  # fmt: skip


def _is_computed(node):
    return node.op not in ("placeholder", "output")


class SubgraphMatcher:
    """Finds where a graph computes what a pattern does.

    Args:
        pattern: a graph without dead code.
        match_output: let its output be one of the graph's.
        match_placeholder: let its arguments be arguments of the graph; else they match anything.
        remove_overlapping_matches: of occurrences that share nodes, keep the first.
        ignore_literals: let constants match any constant.

    Raises:
        ValueError: the pattern is empty.
        AssertionError: it has dead code.

    Example:
        >>> from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
        >>> pattern = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
        >>> graph = torch.fx.symbolic_trace(lambda a: torch.relu(a.sum()) + 1).graph
        >>> [match.returning_nodes for match in SubgraphMatcher(pattern).match(graph)]
        [[add]]
    """

    match_output: bool
    match_placeholder: bool

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher: the pattern is empty")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError(f"SubgraphMatcher: nothing uses {node} of the pattern")
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_placeholder_nodes: list[Node] = pattern.find_nodes(op="placeholder")
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors: list[Node] = [output]
        if not match_output:
            self.pattern_anchors = [n for n in output.all_input_nodes if len(n.users) == 1]

    # -- nodes -----------------------------------------------------------------------------------

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        ours, theirs = (_get_attr(n.graph.owning_module, n.target) for n in (pn, gn))
        if type(ours) is not type(theirs):
            return False
        if not isinstance(ours, Tensor):
            raise RuntimeError(
                f"SubgraphMatcher: {pn.target} is a {type(ours).__name__}; of attributes, tensors "
                "can be matched"
            )
        return True

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if pn.op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if not _is_computed(pn):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node):
            if pn.op != "placeholder":
                return False
            return match.nodes_map.setdefault(pn, gn) == gn
        return not isinstance(gn, Node) and type(gn) is type(pn) and gn == pn

    def _match_args(self, ours: Any, theirs: Any, match: InternalMatch) -> bool:
        return len(ours) == len(theirs) and all(
            self._match_arg(a, b, match) for a, b in zip(ours, theirs)
        )

    def _match_arg(self, ours: Any, theirs: Any, match: InternalMatch) -> bool:
        if isinstance(ours, Node) and isinstance(theirs, Node):
            return self._match_nodes(ours, theirs, match)
        if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
            return self._match_args(ours, theirs, match)
        return self._match_literals(ours, theirs, match) or self.ignore_literals

    def _match_nodes(
        self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = ""
    ) -> bool:
        """Extend a match by a node, and what it is made of."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] == gn
        if gn in match.nodes_map.values() or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        given = _arguments_alike(pn, gn)
        return given is not None and self._match_args(*given, match)

    # -- graphs ----------------------------------------------------------------------------------

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Does nothing outside use what the pattern does not return?"""
        inside = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        return all(
            pn in self.pattern_returning_nodes or all(user in inside for user in gn.users)
            for gn, pn in inside.items()
        )

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept, taken = [], set()
        for match in matches:
            nodes = {gn for pn, gn in match.nodes_map.items() if _is_computed(pn)}
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept

    def _all_matches(self, candidates, match, node_name_match):
        """The matches in which each anchor is one of its candidates."""
        if not candidates:
            match.placeholder_nodes = [match.nodes_map[n] for n in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]
            yield match
            return
        (anchor, nodes), *others = candidates
        for node in nodes:
            extended = match.__copy__()
            if self._match_nodes(anchor, node, extended, node_name_match):
                yield from self._all_matches(others, extended, node_name_match)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences of the pattern, of which nothing is used from outside but what the
        pattern returns.

        Args:
            graph: where to look.
            node_name_match: an anchor may also be a node of any kind with this in its name.
        """
        from rushlight.fx.passes.utils.fuser_utils import validate_partition

        candidates = []
        for anchor in self.pattern_anchors:
            nodes = [n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)]
            if nodes:
                candidates.append((anchor, nodes))
        if not candidates:
            return []
        first = InternalMatch(self.pattern_anchors)
        found = []
        for match in self._all_matches(candidates, first, node_name_match):
            nodes = [gn for pn, gn in match.nodes_map.items() if _is_computed(pn)]
            if self._is_contained(match.nodes_map) and validate_partition(nodes):
                found.append(match)
        return self._remove_overlapping_matches(found) if self.remove_overlapping_matches else found


def _arguments_alike(pn, gn):
    """The arguments of two calls in one order, or None where they are not given alike."""
    if len(pn.args) == len(gn.args) and pn.kwargs.keys() == gn.kwargs.keys():
        return [*pn.args, *pn.kwargs.values()], [*gn.args, *(gn.kwargs[k] for k in pn.kwargs)]
    if pn.op != "call_function" or not isinstance(pn.target, OpOverload):
        return None
    from rushlight.fx.operator_schemas import get_signature_for_torch_op

    signatures = get_signature_for_torch_op(pn.target) or []
    for signature in signatures:
        try:
            bound = [signature.bind(*n.args, **n.kwargs) for n in (pn, gn)]
        except TypeError:
            continue
        for one in bound:
            one.apply_defaults()
        return [list(one.arguments.values()) for one in bound]
    return None
