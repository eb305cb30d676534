"""Handlers of torch's own fusion of graphs, which is written differently here."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rushlight.ao.quantization.fx import _refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.node import Node


class FuseHandler(ABC):
    """What fuses the nodes of a pattern in torch; here a config's `fuser_method` does.

    Args:
        node: the last one of the pattern.
    """

    @abstractmethod
    def __init__(self, node: Node) -> None:
        """Take the last node of the pattern."""

    fuse: Any = _refusal.refused(__name__, "FuseHandler.fuse", "fuse_fx")


class DefaultFuseHandler(FuseHandler):
    """The handler of patterns without one of their own; `fuse` is _refusal.refused."""

    def __init__(self, node: Node) -> None:
        self.node: Any = node


__all__ = ["DefaultFuseHandler", "FuseHandler"]
