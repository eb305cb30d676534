"""Graphs of the accelerator: work that is captured once and replayed as a whole."""

from __future__ import annotations

from rushlight.accelerator._device import cuda_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

__all__ = ["Graph"]


class Graph:
    """Work of the accelerator, captured in a `with` block and replayed as a whole.

    Args:
        keep_graph: refused if True.
        pool: that of another graph, to share its memory.
        capture_error_mode: "default", "global", "thread_local" or "relaxed": which other calls may
            run meanwhile; see `cuda.graph`.

    Raises:
        RuntimeError: there is no accelerator.
    """

    def __init__(
        self,
        keep_graph: bool = False,
        *,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "default",
    ) -> None:
        cuda = cuda_for("Graph")
        self._graph = cuda.CUDAGraph(keep_graph)
        self._pool = pool
        self._mode = "global" if capture_error_mode == "default" else capture_error_mode
        self._capture: Any = None

    def capture_begin(self) -> None:
        """Begin to capture the current stream, which must not be the default one."""
        self._graph.capture_begin(self._pool, self._mode)

    def capture_end(self) -> None:
        """End the capture; replay() then runs what was captured."""
        self._graph.capture_end()

    def replay(self) -> None:
        """Run what was captured, on the current stream, in the same memory."""
        self._graph.replay()

    def reset(self) -> None:
        """Forget what was captured and give its memory back."""
        self._graph.reset()

    def instantiate(self) -> None:
        """Raises RuntimeError: the end of the capture does it, as keep_graph is False."""
        self._graph.instantiate()

    def enable_debug_mode(self) -> None:
        """Refused: see `debug_dump`."""
        self._graph.enable_debug_mode()

    def debug_dump(self, path: str) -> None:
        """Refused: the graph is not kept once it can be replayed."""
        self._graph.debug_dump(path)

    def pool(self) -> tuple[int, int]:
        """The mark of its memory pool, to share it with another graph."""
        return self._graph.pool()

    def __enter__(self) -> Self:
        self._capture = cuda_for("Graph").graph(self._graph, self._pool, None, self._mode)
        self._capture.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._capture.__exit__(*exception)
