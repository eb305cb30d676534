"""Watching what a pass does to a graph: which nodes come, go, and replace others."""

from __future__ import annotations

from pathlib import Path

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.traceback import NodeSource, NodeSourceAction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

    from rushlight.fx import Graph, Node

__all__ = ["GraphTransformObserver"]


class GraphTransformObserver:
    """A context around a pass: notes in `meta["from_node"]` where new nodes come from, and draws
    the graph before and after.

    Args:
        gm: the module that the pass changes.
        passname: the pass.
        subsystem: what it is part of; only noted.
        log_url: folder for the pictures. Without one, nothing is watched.
    """

    gm: Any
    passname: str
    subsystem: Any

    __pass_count = 0

    def __init__(
        self,
        gm: GraphModule,
        passname: str,
        subsystem: str | None = None,
        log_url: str | None = None,
    ) -> None:
        self.gm, self.passname, self.subsystem = gm, passname, subsystem
        self.log_url = log_url
        self.active: bool = log_url is not None
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []
        self._hooks = {
            "create_node": self.get_node_creation_hook(), "erase_node": self.get_node_erase_hook(),
            "replace_node": self.get_node_replace_hook(), "deepcopy": self.get_deepcopy_hook(),
        }  # fmt: skip
        if self.active:
            GraphTransformObserver.__pass_count += 1
            self.input_dot_graph: Any = self._drawn()

    def _drawn(self):
        return FxGraphDrawer(
            self.gm, self.passname, ignore_getattr=True, ignore_parameters_and_buffers=True
        ).get_dot_graph()

    @classmethod
    def get_current_pass_count(cls) -> int:
        """How many passes were watched."""
        return cls.__pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], Any]) -> Any:
        """Run a pass on the module in this context, and return what it returns."""
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], Any]) -> Any:
        """Run a pass on the graph in this context, and return what it returns."""
        with self:
            return pass_fn(self.gm.graph)

    def __enter__(self) -> Self:
        if self.active:
            for kind, hook in self._hooks.items():
                getattr(self.gm, f"_register_{kind}_hook")(hook)
            self.erased_nodes.clear()
            self.created_nodes.clear()
            self.name_to_node = {node.name: node for node in self.gm.graph.nodes}
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.active:
            return
        for module in [*self.copied_gms, self.gm]:
            for kind, hook in self._hooks.items():
                getattr(module, f"_unregister_{kind}_hook")(hook)
        if self.created_nodes or self.erased_nodes:
            self._write(self.input_dot_graph, self.erased_nodes, "input")
            self._write(self._drawn(), self.created_nodes, "output")

    def _write(self, picture, marked, which):
        for node in picture.get_node_list():
            node.set_fillcolor("yellow" if node.get_name() in marked else "grey")
        name = f"pass_{GraphTransformObserver.__pass_count}_{self.passname}_{which}_graph.dot"
        picture.write(str(Path(self.log_url) / name))

    def get_node_creation_hook(self) -> Callable[[Node], None]:
        """What is called with each new node."""

        def on_node_creation(node: Node) -> None:
            self.created_nodes.add(node.name)
            self.name_to_node[node.name] = node
            source = NodeSource(None, self.passname, NodeSourceAction.CREATE)
            node.meta.setdefault("from_node", []).append(source)

        return on_node_creation

    def get_node_erase_hook(self) -> Callable[[Node], None]:
        """What is called with each node that is erased."""

        def on_node_erase(node: Node) -> None:
            self.erased_nodes.add(node.name)
            self.name_to_node.pop(node.name, None)

        return on_node_erase

    def get_node_replace_hook(self) -> Callable[[Node, str, Node], None]:
        """What is called with a node, the name of that which replaces it, and who uses it."""

        def on_node_replace(old: Node, new: str, user: Node) -> None:
            node = self.name_to_node.get(new)
            known = node.meta.get("from_node", []) if node is not None else []
            if node is None or any(source.name == old.name for source in known):
                return
            actions = [NodeSourceAction.REPLACE]
            if new in self.created_nodes:
                actions.append(NodeSourceAction.CREATE)
            created = [NodeSourceAction.CREATE]
            kept = [s for s in known if s.pass_name != self.passname or s.action != created]
            node.meta["from_node"] = [*kept, NodeSource(old, self.passname, actions)]

        return on_node_replace

    def get_deepcopy_hook(self) -> Callable[[GraphModule], None]:
        """What is called with each deep copy of the module."""
        return self.copied_gms.append
