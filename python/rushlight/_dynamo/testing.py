"""Counters of what a graph compiler compiled: nothing, as there is none."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CompileCounter:
    """A backend that counts graphs, and operations in them; `compile` calls no backend here.

    Example:
        >>> counter = CompileCounter()
        >>> graph = rushlight.fx.symbolic_trace(lambda x: x.sin() + 1)
        >>> y = counter(graph, [rushlight.ones(2)])(rushlight.ones(2))
        >>> counter.frame_count, counter.op_count
        (1, 2)
    """

    def __init__(self) -> None:
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        """Count a graph that the program itself gives, and return what runs it."""
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        """Begin to count anew."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same, with the name of a backend that would be called.

    Args:
        backend: its name.
    """

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        """Count a graph that the program itself gives, and keep it."""
        self.graphs.append(gm)
        return super().__call__(gm, example_inputs)

    def clear(self) -> None:
        """Begin to count anew."""
        super().clear()
        self.graphs.clear()
