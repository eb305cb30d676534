"""What a pass is, and what it returns."""

from __future__ import annotations

import abc
from typing import NamedTuple

from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module that a pass made, and whether it changed something."""

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """A pass: `call` does it; `requires` and `ensures` may check what it takes and makes."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Do the pass on a module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise an error if the pass cannot take the module."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise an error if the pass left the module as it should not."""
