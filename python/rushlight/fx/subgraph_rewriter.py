"""Replacing every occurrence of a pattern in a graph."""

from __future__ import annotations

from collections import namedtuple

from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph, _has_attribute
from rushlight.fx.graph_module import GraphModule, _copy_attribute
from rushlight.fx.node import Node
from rushlight.fx.passes.utils.matcher_utils import _arguments_alike
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

# anchor: the node for the pattern's last output; nodes_map: that for each node of the pattern.
Match: type[Any] = namedtuple("Match", "anchor nodes_map")
ReplacedPatterns: type[Any] = namedtuple("ReplacedPatterns", "anchor nodes_map replacements")


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Any]:
    """Replace what computes `pattern` by `replacement` wherever it occurs, without overlaps.

    Args:
        gm: the `GraphModule`, which is changed and recompiled.
        pattern: function, module or graph; its arguments match anything.
        replacement: another with as many arguments and outputs.

    Returns:
        A list of `Match`.

    Example:
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + torch.relu(-x))
        >>> matches = torch.fx.replace_pattern(traced, lambda x: torch.relu(x), lambda x: x.abs())
        >>> len(matches), traced(torch.tensor(-2.0))
        (2, tensor(4.))
    """
    replaced = _replace(gm, pattern, replacement, None, False)
    return [Match(anchor=r.anchor, nodes_map=r.nodes_map) for r in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Any] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Any = None,
) -> list[Any]:
    """Replace matches of `pattern` for which all filters are true.

    Args:
        match_filters: functions of (match, original graph, pattern graph).
        ignore_literals: let constants of the pattern match any constant.
        replacement_callback: makes the replacement graph of (match, original graph, pattern graph).

    Returns:
        A list of `ReplacedPatterns`, with the nodes that were put in.
    """
    make = replacement_callback if replacement_callback is not None else replacement
    return _replace(
        gm, pattern, make, match_filters, ignore_literals, replacement_callback is not None
    )


def _graph_and_owner(program):
    """The graph of a program, and the module with the attributes that it names."""
    if isinstance(program, Graph):
        return program, program.owning_module
    traced = program if isinstance(program, GraphModule) else symbolic_trace(program)
    return traced.graph, traced


def _replace(gm, pattern, replacement, filters, ignore_literals, is_callback=False):
    graph, (pattern_graph, _) = gm.graph, _graph_and_owner(pattern)
    matches = _find_matches(graph, pattern_graph, ignore_literals)
    matches = [m for m in matches if all(f(m, graph, pattern_graph) for f in filters or ())]
    placeholders = pattern_graph.find_nodes(op="placeholder")
    outputs = _outputs(pattern_graph)

    successor = {}  # what stands now for a node that an earlier match replaced
    results = []
    for match in matches:
        if is_callback or not results:
            program = replacement(match, graph, pattern_graph) if is_callback else replacement
            replacement_graph, owner = _graph_and_owner(program)
        inputs = replacement_graph.find_nodes(op="placeholder")
        if len(inputs) != len(placeholders):
            raise ValueError(
                f"replace_pattern: the pattern has {len(placeholders)} arguments, the replacement "
                f"{len(inputs)}"
            )
        values = {}
        for theirs, ours in zip(inputs, placeholders):
            value = match.nodes_map.get(ours)
            while isinstance(value, Node) and value in successor:
                value = successor[value]
            values[theirs] = value
        matched = {match.nodes_map[n] for n in pattern_graph.nodes if n in match.nodes_map}
        internal = [n for n in graph.nodes if n in matched and _is_internal(n, match, placeholders)]
        with graph.inserting_before(_first_use(graph, internal, values)):
            result = graph.graph_copy(replacement_graph, values)
        added = [v for k, v in values.items() if k not in inputs and isinstance(v, Node)]
        new_outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(new_outputs) != len(outputs):
            raise ValueError(
                f"replace_pattern: the pattern has {len(outputs)} outputs, the replacement "
                f"{len(new_outputs)}"
            )
        for old, new in zip(outputs, new_outputs):
            old = match.nodes_map[old]
            if isinstance(new, Node):
                old.replace_all_uses_with(new)
                successor[old] = new
        for node in reversed(internal):
            if not node.users:
                graph.erase_node(node)
        _install_attributes(gm, owner, added)
        results.append(ReplacedPatterns(match.anchor, match.nodes_map, added))
    if results and isinstance(replacement, Module):
        gm.delete_all_unused_submodules()
    gm.recompile()
    return results


def _is_internal(node, match, placeholders):
    return not any(match.nodes_map.get(p) is node for p in placeholders)


def _first_use(graph, internal, values):
    """The node before which the replacement goes: the match's first, or after its last input."""
    inputs = {v for v in values.values() if isinstance(v, Node)}
    nodes = list(graph.nodes)
    last_input = max((nodes.index(v) for v in inputs), default=-1)
    first = min(nodes.index(n) for n in internal)
    return nodes[max(first, last_input + 1)]


def _install_attributes(gm, owner, added):
    """Give the module what the replacement brings along; modules that it has already stay."""
    for node in added:
        if node.op not in ("get_attr", "call_module") or owner is None:
            continue
        if node.target.startswith("_tensor_constant"):
            constant = getattr(owner, node.target)
            count = 0
            while getattr(gm, f"_tensor_constant{count}", constant) is not constant:
                count += 1
            node.target = f"_tensor_constant{count}"
            setattr(gm, node.target, constant)
        elif not _has_attribute(gm, node.target):
            _copy_attribute(owner, gm, node.target)


def _outputs(pattern_graph):
    """The nodes that a pattern returns."""
    returned = pattern_graph.output_node().args[0]
    returned = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if not all(isinstance(n, Node) and n.op != "placeholder" for n in returned):
        raise ValueError(
            f"replace_pattern: the pattern must return what it computes, not {returned}"
        )
    return returned


def _find_matches(graph, pattern_graph, ignore_literals):
    """Matches of the pattern that do not overlap, later ones of the graph first looked for."""
    outputs = _outputs(pattern_graph)
    pattern_nodes = [n for n in pattern_graph.nodes if n.op not in ("placeholder", "output")]
    taken, found = set(), []
    for anchor in graph.nodes:
        for mapping in _anchored(graph, anchor, outputs, ignore_literals):
            nodes = {mapping[n] for n in pattern_nodes if n in mapping}
            inside = all(
                user in nodes
                for n in pattern_nodes
                if n not in outputs
                for user in mapping[n].users
            )
            if len(mapping) >= len(pattern_nodes) and inside and not nodes & taken:
                taken |= nodes
                found.append(Match(anchor, mapping))
                break
    return found


def _anchored(graph, anchor, outputs, ignore_literals):
    """Mappings in which the last output is `anchor`; other outputs are looked for everywhere."""
    *others, last = outputs
    start = {}
    if not _matches(last, anchor, start, ignore_literals):
        return
    partial = [start]
    for output in others:
        extended = []
        for mapping in partial:
            candidates = [mapping[output]] if output in mapping else graph.nodes
            for candidate in candidates:
                trial = dict(mapping)
                if _matches(output, candidate, trial, ignore_literals):
                    extended.append(trial)
        partial = extended
    yield from partial


def _matches(pattern, value, mapping, ignore_literals):
    """Whether a value fits a pattern's node, extending the mapping."""
    if not isinstance(pattern, Node):
        if isinstance(value, Node):
            return False
        return ignore_literals or (type(pattern) is type(value) and pattern == value)
    if pattern in mapping:
        known = mapping[pattern]
        return known is value or (not isinstance(value, Node) and known == value)
    if pattern.op == "placeholder":
        mapping[pattern] = value
        return True
    if not isinstance(value, Node) or value in mapping.values() or pattern.op != value.op:
        return False
    if not _same_target(pattern, value):
        return False
    mapping[pattern] = value
    given = _arguments_alike(pattern, value)
    return given is not None and _all_match(*given, mapping, ignore_literals)


def _same_target(pattern, value):
    if pattern.op in ("get_attr", "call_module"):
        # Paths differ between modules: compare the last part.
        return pattern.target.split(".")[-1] == value.target.split(".")[-1]
    return pattern.target == value.target


def _all_match(pattern, value, mapping, ignore_literals):
    if isinstance(pattern, (tuple, list)):
        return (
            isinstance(value, (tuple, list))
            and len(pattern) == len(value)
            and all(_all_match(p, v, mapping, ignore_literals) for p, v in zip(pattern, value))
        )
    if isinstance(pattern, dict):
        return (
            isinstance(value, dict)
            and pattern.keys() == value.keys()
            and all(_all_match(pattern[k], value[k], mapping, ignore_literals) for k in pattern)
        )
    if isinstance(pattern, slice):
        if not isinstance(value, slice):
            return False
        parts = ("start", "stop", "step")
        return all(
            _all_match(getattr(pattern, p), getattr(value, p), mapping, ignore_literals)
            for p in parts
        )
    return _matches(pattern, value, mapping, ignore_literals)
