"""Graph modules in the stages of quantization, which keep attributes of the model."""

from __future__ import annotations

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module


class FusedGraphModule(GraphModule):
    """A graph module whose layers are fused.

    Args:
        root: whose modules the graph calls.
        preserved_attr_names: attributes of `root` that are kept.
    """

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, preserved_attr_names: set[str]
    ) -> None:
        super().__init__(root, graph)
        self.preserved_attr_names: Any = preserved_attr_names
        for name in preserved_attr_names:
            if hasattr(root, name):
                setattr(self, name, getattr(root, name))


class ObservedGraphModule(FusedGraphModule):
    """A graph module with observers."""


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A part of a model, by itself, with observers."""


class QuantizedGraphModule(FusedGraphModule):
    """A quantized graph module."""


__all__ = [
    "FusedGraphModule", "ObservedGraphModule", "ObservedStandaloneGraphModule",
    "QuantizedGraphModule",
]  # fmt: skip
