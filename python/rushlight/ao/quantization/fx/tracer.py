"""Recording of models that are to be quantized."""

from __future__ import annotations

from rushlight.ao.nn.intrinsic import _FusedModule
from rushlight.fx._symbolic_trace import Tracer
from rushlight.nn.modules.container import Sequential

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.fx.node import Node
    from rushlight.nn.modules.module import Module


class QuantizationTracer(Tracer):
    """Records a model with the layers of nn, and what is named, as single nodes.

    Args:
        skipped_module_names: modules that are recorded as one node.
        skipped_module_classes: classes of such modules.
    """

    def __init__(
        self, skipped_module_names: list[str], skipped_module_classes: list[Callable[..., Any]]
    ) -> None:
        super().__init__()
        self.skipped_module_names = skipped_module_names
        self.skipped_module_classes = skipped_module_classes
        # The path and the class of the module that each node was recorded in.
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self._scope = ("", None)

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether calls of a module are recorded as one."""
        ours = m.__module__.startswith(
            ("rushlight.nn", "rushlight.ao.nn", "torch.nn", "torch.ao.nn")
        )
        return (
            (ours and not isinstance(m, Sequential))
            or module_qualified_name in self.skipped_module_names
            or type(m) in self.skipped_module_classes
            or isinstance(m, _FusedModule)
        )

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record the call of a module, noting for its nodes that they are of it."""
        outer, self._scope = self._scope, (self.path_of_module(m), type(m))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self._scope = outer

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Insert a node into the graph, and note which module it is of."""
        node = super().create_node(*args, **kwargs)
        self.node_name_to_scope[node.name] = self._scope
        return node


__all__ = ["QuantizationTracer"]
