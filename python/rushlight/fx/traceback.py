"""What new nodes note about where they come from: notes that a program sets while it is traced."""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import traceback as _traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight.fx import Graph, Node

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

# Of the current notes, these go to the nodes that tracers make.
_COPIED_FIELDS = (
    "nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute", "ac_graph_id",
    "has_backward_hook", "from_node", "quantization_tag", "_numeric_debug_handle", "custom",
    "partitioner_tag",
)  # fmt: skip

current_meta: dict[str, Any] = {}
current_replay_node: Node | None = None
should_preserve_node_meta: bool = False


class NodeSourceAction(enum.Enum):
    """What a pass did to make a node."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a node comes from: another node, the pass that made it, and that one's own sources.

    Args:
        node: the node it comes from; None where there is none.
        pass_name: the pass.
        action: what the pass did, one or several.
    """

    pass_name: str
    action: Any

    class NodeInfo:
        """The name of a node, its target, and which graph it is of."""

        name: str
        target: str
        graph_id: int

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name, self.target, self.graph_id = name, target, graph_id

    def __init__(
        self,
        node: Node | None,
        pass_name: str = "",
        action: NodeSourceAction | list[NodeSourceAction] | None = None,
    ) -> None:
        actions = [] if action is None else action if isinstance(action, list) else [action]
        for one in actions:
            if not isinstance(one, NodeSourceAction):
                raise AssertionError(f"NodeSource: action must be a NodeSourceAction, got {one!r}")
        self.pass_name, self.action = pass_name, actions
        self.node_info: NodeSource.NodeInfo | None = None
        self.from_node: list[NodeSource] = []
        if node is not None:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            self.from_node = copy.deepcopy(node.meta.get("from_node", []))

    @property
    def name(self) -> str:
        """The node's name, "" where there is none."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        """The node's target as text, "" where there is none."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        """The id of the node's graph, -1 where there is none."""
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join(action.name.lower() for action in self.action)

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """The sources as an indented list, ten levels deep at most."""
        if indent > 9:
            return ""
        line = (
            f"{'    ' * indent}(name={self.name}, pass_name={self.pass_name}, "
            f"action={self._get_action_string()}, graph_id={self.graph_id})\n"
        )
        return line + "".join(source.print_readable(indent + 1) for source in self.from_node)

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists, texts and numbers."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [source.to_dict() for source in self.from_node],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.print_readable())

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        """What `to_dict` took apart."""
        if d is None:
            return None
        if not isinstance(d, dict):
            raise AssertionError(f"NodeSource: expected a dict, got {type(d).__name__}")
        names = [name for name in d.get("action", "").split("+") if name]
        made = cls(None, d.get("pass_name", ""), [NodeSourceAction(name) for name in names])
        if {"name", "target", "graph_id"} <= d.keys():
            made.node_info = cls.NodeInfo(d["name"], d["target"], d["graph_id"])
        made.from_node = [cls._from_dict(source) for source in d.get("from_node") or []]
        return made


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A context in which nodes that tracers make get the current notes."""
    global should_preserve_node_meta, current_meta
    saved = should_preserve_node_meta, current_meta.copy()
    should_preserve_node_meta = enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = saved


def has_preserved_node_meta() -> bool:
    """Do nodes that tracers make get the current notes?"""
    return should_preserve_node_meta


def get_current_meta() -> dict[str, Any]:
    """The current notes."""
    return current_meta


@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """A context in which a node's notes are the current ones, with that node as their source."""
    global current_meta
    if not (should_preserve_node_meta and node.meta):
        yield
        return
    saved = current_meta
    source = NodeSource(node, pass_name, NodeSourceAction.CREATE)
    current_meta = {**node.meta, "from_node": [source]}
    try:
        yield
    finally:
        current_meta = saved


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """A context in which a dict's entries are in `meta["custom"]` of what is traced."""
    had, before = "custom" in current_meta, dict(current_meta.get("custom", {}))
    current_meta["custom"] = {**before, **annotation_dict}
    try:
        yield
    finally:
        if had:
            current_meta["custom"] = before
        else:
            current_meta.pop("custom", None)


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[..., Callable[..., Any]]:
    """A decorator: calls of the function are traced in `annotate(annotation_dict)`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


def set_stack_trace(stack: list[str]) -> None:
    """Let the lines be the stack trace of what is traced next, if notes go to nodes."""
    if should_preserve_node_meta:
        current_meta.pop("stack_trace", None)
        if stack:
            current_meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The current stack trace: that of the notes if they go to nodes, else the program's."""
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return _traceback.format_list(_traceback.extract_stack()[:-1])


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Note that the node of that number is computed in backward."""
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Undo the last `set_grad_fn_seq_nr`.

    Raises: AssertionError if there was none.
    """
    if not should_preserve_node_meta:
        return
    level = current_meta.get("in_grad_fn", 0)
    if level <= 0:
        raise AssertionError(f"reset_grad_fn_seq_nr: no node is computed, the level is {level}")
    if level == 1:
        del current_meta["in_grad_fn"], current_meta["grad_fn_seq_nr"]
    else:
        current_meta["in_grad_fn"] = level - 1
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]


@contextlib.contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """A context in which what is traced replaces a node, and takes over notes of it."""
    global current_replay_node
    saved, current_replay_node = current_replay_node, node
    try:
        yield
    finally:
        current_replay_node = saved


def get_current_replay_node() -> Node | None:
    """The node that what is traced replaces."""
    return current_replay_node


def _note(node: Node) -> None:
    """Give a node that a tracer made the current notes."""
    stack_trace = current_meta.get("stack_trace")
    if stack_trace:
        node.stack_trace = stack_trace
    for field in _COPIED_FIELDS:
        if field in current_meta:
            node.meta[field] = copy.copy(current_meta[field])
    if current_meta.get("in_grad_fn", 0) > 0:
        node.meta["seq_nr"] = current_meta["grad_fn_seq_nr"][-1]
    if current_replay_node is not None:
        node.meta["is_functional_regenerated"] = True
        for field in ("custom", "stack_trace"):
            if field in current_replay_node.meta:
                node.meta[field] = current_replay_node.meta[field]
    if current_meta.get("autograd_backward", False):
        node.meta["autograd_backward"] = True


def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """{name of a call of a function: its sources as dicts}."""
    return {
        node.name: [source.to_dict() for source in node.meta.get("from_node", [])]
        for node in graph.nodes
        if node.op == "call_function"
    }
