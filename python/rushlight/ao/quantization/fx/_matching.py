"""Which nodes of a graph match which patterns of a backend's config."""

from __future__ import annotations

import builtins

from rushlight.ao.quantization.backend_config.backend_config import ObservationType
from rushlight.ao.quantization.utils import MatchAllNode
from rushlight.fx.node import Node
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.ao.quantization.backend_config.backend_config import (
        BackendConfig,
        BackendPatternConfig,
    )


class Match:
    """Nodes that match a pattern, the last one first."""

    def __init__(self, config: BackendPatternConfig, pattern: Any, nodes: list[Node]) -> None:
        self.config, self.pattern, self.nodes = config, pattern, nodes

    @property
    def last(self) -> Node:
        """The node whose result is that of the pattern."""
        return self.nodes[0]

    @property
    def root(self) -> Node:
        """The node with the pattern's inputs."""
        return self.nodes[-1]

    def observation(self) -> ObservationType:
        """What observes the result, by the number of the root's arguments that are tensors."""
        counted = self.config._num_tensor_args_to_observation_type
        count = sum(isinstance(arg, Node) for arg in self.root.args)
        return counted.get(count, self.config.observation_type)


def find(
    node: Any, pattern: Any, modules: dict[str, Module], inner: bool = False
) -> list[Node] | None:
    """Return the nodes that match, the given one first, or None.

    Args:
        pattern: one operation, or (operation, pattern of its first argument, ...).
        inner: the result must be used once.
    """
    operation, *rest = pattern if isinstance(pattern, tuple) else (pattern,)
    if operation is MatchAllNode:
        return []
    if not isinstance(node, Node) or (inner and len(node.users) > 1):
        return None
    if not _calls(node, operation, modules):
        return None
    if operation is builtins.getattr:
        return [node] if list(node.args[1:]) == rest else None
    if rest and len(rest) != len(node.args):
        return None
    found = [node]
    for argument, part in zip(node.args, rest):
        matched = find(argument, part, modules, inner=True)
        if matched is None:
            return None
        found += matched
    return found


def _calls(node, operation, modules):
    if isinstance(operation, type) and issubclass(operation, Module):
        return (
            node.op == "call_module"
            and _parametrize.type_before_parametrizations(modules.get(node.target)) is operation
        )
    if callable(operation):
        return node.op == "call_function" and node.target is operation
    if node.op == "call_function" and node.target is builtins.getattr:
        return node.args[1] == operation
    return node.op == "call_method" and node.target == operation


def _size(pattern):
    return sum(map(_size, pattern)) if isinstance(pattern, tuple) else 1


def matches(
    nodes: list[Node],
    modules: dict[str, Module],
    backend_config: BackendConfig,
    wanted: Callable[[BackendPatternConfig], bool],
) -> dict[Node, Match]:
    """Return the match of each node, longer patterns going first, from the last node on."""
    configs = [
        (pattern, config)
        for pattern, config in backend_config._pattern_complex_format_to_config.items()
        if wanted(config)
    ]
    configs.sort(key=lambda entry: -_size(entry[0]))
    found: dict[Node, Match] = {}
    for node in reversed(nodes):
        if node in found:
            continue
        for pattern, config in configs:
            matched = find(node, pattern, modules)
            if matched is not None and not any(one in found for one in matched):
                match = Match(config, pattern, matched)
                found.update(dict.fromkeys(matched, match))
                break
    return found
