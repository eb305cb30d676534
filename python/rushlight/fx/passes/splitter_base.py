"""Cutting a graph into what an accelerator computes and what it does not, for lowering to it."""

from __future__ import annotations

import collections
import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import rushlight
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.operator_support import OperatorSupportBase
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.split_utils import move_non_tensor_nodes_on_boundary, split_by_tags
from rushlight.fx.passes.tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    get_node_target,
    is_node_output_tensor,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rushlight.nn import Module

__all__ = [
    "FxNetAccNodesFinder",
    "FxNetSplitterInternalError",
    "NodeEvent",
    "NodeEventTracker",
    "SplitResult",
    "Subgraph",
    "generate_inputs_for_submodules",
]

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False


class _SplitterSettingBase:
    """How to cut.

    Args:
        min_acc_module_size: fewer calls than that are not worth the accelerator.
        skip_fusion: whether parts may give each other values that are no tensors.
        allow_non_tensor: whether the accelerator may take and give such values.
        max_acc_splits: how many parts there may be; -1 for any number.
        move_non_tensor_nodes_on_boundary: see `split_utils`.
    """

    def __init__(
        self,
        min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE,
        skip_fusion: bool = DEFAULT_SKIP_FUSION,
        allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR,
        max_acc_splits: int = -1,
        move_non_tensor_nodes_on_boundary: bool = False,
    ) -> None:
        self.min_acc_module_size, self.skip_fusion = min_acc_module_size, skip_fusion
        self.allow_non_tensor, self.max_acc_splits = allow_non_tensor, max_acc_splits
        self.move_non_tensor_nodes_on_boundary = move_non_tensor_nodes_on_boundary


class NodeEvent:
    """Something that happened to a node, and the node that was the cause."""

    source: Any
    desc: str
    dep: Any

    def __init__(self, source: Node, desc: str, dep: Node | None = None) -> None:
        self.source, self.desc, self.dep = source, desc, dep

    def to_str(self) -> str:
        """The event as a line."""
        return f"{self.source.name}: {self.desc} {self.dep.name if self.dep else '#'}"


class NodeEventTracker:
    """What happened to nodes.

    Args:
        tracker_mode: 0, or 1 to have `dump` write a file.
        dump_prefix: path of the file, without its end.
    """

    tracker_mode: int
    dump_prefix: str

    def __init__(self, tracker_mode: int, dump_prefix: str) -> None:
        self.tracker_mode, self.dump_prefix = tracker_mode, dump_prefix
        self.events: list[NodeEvent] = []
        self.node_events: dict[str, list[int]] = {}
        self.writer: Callable[[str], Any] = print

    def add(self, node: Node, desc: str, dep: Node | None = None) -> None:
        """Note an event."""
        self.node_events.setdefault(node.name, []).append(len(self.events))
        self.events.append(NodeEvent(node, desc, dep))

    def print_node(
        self,
        node_name: str,
        recursive: bool = False,
        tab: str = "",
        writer: Callable[[str], Any] | None = None,
    ) -> None:
        """Write the events of a node.

        Args:
            node_name: the node.
            recursive: and of those that were the cause.
            tab: what begins each line.
            writer: function that takes a line; by default `print`.
        """
        write = writer or self.writer
        for index in self.node_events.get(node_name, []):
            event = self.events[index]
            write(tab + event.to_str())
            if recursive and event.dep is not None:
                self.print_node(event.dep.name, True, f"| {tab}", write)

    def to_dict(self) -> dict[str, list[str]]:
        """{name of a node: its events as lines}."""
        return {
            name: [self.events[i].to_str() for i in indices]
            for name, indices in self.node_events.items()
        }

    def print_all(self, writer: Callable[[str], Any] | None = None) -> None:
        """Write the events of all nodes."""
        write = writer or self.writer
        for name in self.node_events:
            write(f"Node: {name}:")
            self.print_node(name, tab="  ", writer=write)

    def dump(self) -> None:
        """Write the file, if the mode is not 0."""
        if self.tracker_mode >= 1:
            lines: list[str] = []
            self.print_all(lines.append)
            Path(f"{self.dump_prefix}_all.txt").write_text("\n".join(lines) + "\n")


class FxNetAccNodesFinder:
    """Finds the calls that an accelerator computes, without those that exchange values that are no
    tensors with others.

    Args:
        module: the module, after `ShapeProp`.
        operator_support: what the accelerator computes.
        allow_non_tensor: keep those, too.
    """

    module: Any
    operator_support: Any

    def __init__(
        self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool
    ) -> None:
        self.module, self.operator_support = module, operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: set[Node] = set()
        self.tracker: NodeEventTracker = NodeEventTracker(0, "_fx_net_tracker")

    def reduce_acc_nodes_non_tensor_input_helper(self, cpu_worklist: list[Node]) -> None:
        """Take out what uses nodes that give no tensors, and so on."""
        while cpu_worklist:
            node = cpu_worklist.pop(0)
            for user in node.users:
                if user in self.acc_nodes:
                    self.acc_nodes.remove(user)
                    self.tracker.add(user, "acc_del|user_of_new_cpu_node", node)
                    if not is_node_output_tensor(user):
                        self.tracker.add(user, "new_cpu_node|non_tensor_output")
                        cpu_worklist.append(user)

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Take out what takes from others values that are no tensors."""
        found = []
        for node in self.module.graph.nodes:
            inside = node.op not in CALLABLE_NODE_OPS or node in self.acc_nodes
            if not inside and not is_node_output_tensor(node):
                self.tracker.add(node, "new_cpu_node|callable_non_tensor_input")
                found.append(node)
        self.reduce_acc_nodes_non_tensor_input_helper(found)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Take out what gives others values that are no tensors."""
        while True:
            found = []
            for node in self.acc_nodes:
                outside = [u for u in node.users if u not in self.acc_nodes]
                if outside and not is_node_output_tensor(node):
                    self.tracker.add(node, "acc_del|non_tensor_output_with_cpu_user", outside[0])
                    found.append(node)
            if not found:
                return
            self.acc_nodes -= set(found)
            self.reduce_acc_nodes_non_tensor_input_helper(found)

    def __call__(self) -> set[Node]:
        submodules = dict(self.module.named_modules())
        self.acc_nodes = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                self.tracker.add(node, "init_cpu|not_callable")
            elif not self.operator_support.is_node_supported(submodules, node):
                self.tracker.add(node, "init_cpu|operator_support")
            else:
                self.tracker.add(node, "init_acc|callable_and_operator_supported")
                self.acc_nodes.add(node)
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        self.tracker.dump()
        return self.acc_nodes


class FxNetSplitterInternalError(Exception):
    """The graph could not be cut."""


@dataclass
class Subgraph:
    """A part: whether the accelerator computes it, and its nodes."""

    is_acc: bool
    nodes: list[Node]
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """The module that calls the parts, what each of them takes in the example, and what the names
    of those begin with that the accelerator does not compute.
    """

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(
    model: Module, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """What modules are called with in a run of a model.

    Args:
        model: the model.
        inputs: what it is called with.
        target_submodules: paths of the modules.
        deepcopy: copy their arguments.

    Returns:
        {path: its positional arguments}.
    """
    wanted, found, handles = set(target_submodules), {}, []

    def noting(name):
        def note(module, args):
            found[name] = copy.deepcopy(args) if deepcopy else args

        return note

    for name, module in model.named_modules():
        if name in wanted:
            handles.append(module.register_forward_pre_hook(noting(name)))
    try:
        with rushlight.no_grad():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


class _SplitterBase:
    """Cuts a module into parts for an accelerator and for the CPU, by turns, as few as possible.

    Args:
        module: the module.
        sample_input: an example, on which it runs.
        operator_support: what the accelerator computes.
        settings: how to cut.
        non_acc_submodule_name: what the names of the other parts begin with.
        return_tuple: let parts return a tuple of one value, too.
        nodes_finder: finds the calls for the accelerator.
    """

    def __init__(
        self,
        module: GraphModule,
        sample_input: Sequence[Any],
        operator_support: OperatorSupportBase,
        settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_",
        return_tuple: bool = False,
        nodes_finder: FxNetAccNodesFinder | None = None,
    ) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"splitter: expected a GraphModule, got {type(module).__name__}")
        self.module, self.sample_input, self.settings = module, sample_input, settings
        self.operator_support = operator_support
        ShapeProp(module).propagate(*sample_input)
        finder = nodes_finder or FxNetAccNodesFinder(
            module, operator_support, settings.allow_non_tensor
        )
        self.acc_nodes: set[Node] = finder()
        self.fusions: dict[Node, set[Node]] = {}
        if not settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps: dict[Node, set[Node]] = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name, self._return_tuple = non_acc_submodule_name, return_tuple
        self._node_submodule_map: dict[str, str] = {}
        self.tags: list[str] = []

    def get_node_submodule_map(self) -> dict[str, str]:
        """{name of a node: the part that it is in}."""
        return self._node_submodule_map

    def find_deps(self) -> dict[Node, set[Node]]:
        """The calls that each node uses."""
        found = collections.defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                for user in node.users:
                    if user.op != "output":
                        found[user].add(node)
        return found

    def update_deps_for_fusions(self) -> None:
        """Let the nodes of a group need what any of them needs, and be needed together."""
        for node, group in self.fusions.items():
            for other in group:
                self.deps[node].update(self.deps[other] - group)
                for user in other.users:
                    if user not in group:
                        self.deps[user].add(node)

    def starter_nodes(self) -> tuple[set[Node], set[Node]]:
        """Calls that use inputs and attributes, or nothing: (for the CPU, for the accelerator)."""
        found: tuple[dict[Node, None], dict[Node, None]] = ({}, {})
        for node in self.module.graph.nodes:
            starters = []
            if node.op == "call_function" and not node.all_input_nodes:
                starters = [node]
            elif node.op in ("placeholder", "get_attr"):
                starters = list(node.users)
            for starter in starters:
                found[starter in self.acc_nodes][starter] = None
        return found

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """The parts, by turns."""
        waiting, done = self.starter_nodes(), set()
        on_acc = not any(not self.deps[n] for n in waiting[False])
        parts, current = [], []
        while waiting[False] or waiting[True]:
            node = next((n for n in waiting[on_acc] if self.deps[n] <= done), None)
            if node is None:
                if not current:
                    raise FxNetSplitterInternalError("Subgraph can't be empty")
                parts.append(Subgraph(on_acc, current))
                on_acc, current = not on_acc, []
                continue
            del waiting[on_acc][node]
            done.add(node)
            current.append(node)
            group = self.fusions.get(node, set()) - done
            following = [u for u in node.users if u.op in CALLABLE_NODE_OPS]
            waiting[node in self.acc_nodes].update(dict.fromkeys(group))
            for user in following:
                waiting[user in self.acc_nodes][user] = None
        if current:
            parts.append(Subgraph(on_acc, current))
        if not parts:
            raise FxNetSplitterInternalError("Couldn't create subgraphs")
        return parts

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Join parts that are too small for the accelerator with the part before."""
        kept: list[Subgraph] = []
        for part in subgraphs:
            small = part.is_acc and len(part.nodes) < self.settings.min_acc_module_size
            if part.is_acc and not small:
                kept.append(part)
            elif kept and (small or not kept[-1].is_acc):
                kept[-1].nodes.extend(part.nodes)
            else:
                part.is_acc = False
                kept.append(part)
        return kept

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Give the nodes the tags of their parts."""
        self.tags = []
        for part in subgraphs:
            prefix = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            tag = f"{prefix}{len(self.tags)}"
            self.tags.append(tag)
            for node in part.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = tag
                self._node_submodule_map[node.name] = tag

    def split(self, remove_tag: bool = False) -> GraphModule:
        """The module that calls the parts that the nodes' tags say."""
        made = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        if remove_tag:
            for node in self.module.graph.nodes:
                if hasattr(node, "tag"):
                    del node.tag
        return made

    def __call__(self) -> GraphModule:
        parts = self.put_nodes_into_subgraphs()
        if self.settings.move_non_tensor_nodes_on_boundary:
            move_non_tensor_nodes_on_boundary(parts)
        self.tag(self.remove_small_acc_subgraphs(parts))
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """Cut, and run the example for what each part takes.

        Raises: ValueError if there are more parts than `max_acc_splits`.
        """
        made = self()
        names = [name for name, _ in made.named_children()]
        if 0 < self.settings.max_acc_splits < len(names):
            raise ValueError(
                f"generate_split_results: {len(names)} parts are more than max_acc_splits = "
                f"{self.settings.max_acc_splits}"
            )
        inputs = generate_inputs_for_submodules(made, self.sample_input, names)
        return SplitResult(made, inputs, self.non_acc_submodule_name)

    def node_support_preview(self) -> str:
        """Print, and return, which targets the accelerator computes and which it does not."""
        submodules = dict(self.module.named_modules())
        found: tuple[dict[str, None], dict[str, None]] = ({}, {})
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                supported = self.operator_support.is_node_supported(submodules, node)
                found[supported][get_node_target(submodules, node)] = None
        text = "\n".join(
            ["Supported node types in the model:", *found[True], "",
             "Unsupported node types in the model:", *found[False]]
        )  # fmt: skip
        print(text)
        return text
