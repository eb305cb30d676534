"""CUDA graphs: work that is captured once and launched again as a whole."""

from __future__ import annotations

import gc

import rushlight
from rushlight import _C
from rushlight.cuda._device import synchronize
from rushlight.cuda.streams import Stream, StreamContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

_cuda = _C._cuda
_NOT_KEPT = "the captured graph is not kept once it can be replayed"
_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def is_current_stream_capturing() -> Any:
    """Return whether the current stream is being captured."""
    return _cuda.is_capturing()


def graph_pool_handle() -> Any:
    """Return a mark of a memory pool that several graphs may share."""
    return (0, _cuda.new_pool())


class CUDAGraph:
    """What a stream was given between capture_begin() and capture_end()."""

    def __init__(self, keep_graph: bool = False) -> None:
        if keep_graph:
            raise NotImplementedError("CUDAGraph: keep_graph=True is not supported")
        self._graph = _cuda.graph_new()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin to capture the current stream, which must not be the default one."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                "CUDAGraph.capture_begin: capture_error_mode must be one of "
                f"{', '.join(_MODES)}, not {capture_error_mode!r}"
            )
        number = 0 if pool is None else pool[1]
        _cuda.graph_begin(self._graph, number, _MODES[capture_error_mode])

    def capture_end(self) -> None:
        """End the capture; replay() then runs what was captured."""
        _cuda.graph_end(self._graph)

    def replay(self) -> None:
        """Run what was captured, on the current stream, in the same memory."""
        _cuda.graph_replay(self._graph)

    def reset(self) -> None:
        """Forget what was captured and give its memory back."""
        _cuda.graph_reset(self._graph)

    def instantiate(self) -> None:
        """Raises RuntimeError: the end of the capture does it, as keep_graph is False."""
        raise RuntimeError(
            "CUDAGraph.instantiate: is for graphs made with keep_graph=True; this one can be "
            "replayed as it is"
        )

    def enable_debug_mode(self) -> None:
        """Refused: see `debug_dump`."""
        raise NotImplementedError(f"CUDAGraph.enable_debug_mode: {_NOT_KEPT}")

    def debug_dump(self, debug_path: str) -> None:
        """Refused: the graph is not kept once it can be replayed."""
        raise NotImplementedError(f"CUDAGraph.debug_dump({debug_path!r}): {_NOT_KEPT}")

    def get_graph_data(self) -> Any:
        """Refused: see `debug_dump`."""
        raise NotImplementedError(f"CUDAGraph.get_graph_data: {_NOT_KEPT}")

    def raw_cuda_graph(self) -> int:
        """Raises RuntimeError: the graph is kept with keep_graph=True alone."""
        raise RuntimeError(
            "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with "
            "keep_graph=true"
        )

    def raw_cuda_graph_exec(self) -> int:
        """Refused: the core does not show its pointers."""
        raise NotImplementedError(
            "CUDAGraph.raw_cuda_graph_exec: the core does not show its pointers; see replay()"
        )

    def register_generator_state(self, generator: Any) -> None:
        """Check that a generator draws on a GPU; a graph finds by itself what it draws from."""
        if generator.device.type != "cuda":
            raise RuntimeError(
                "CUDAGraph.register_generator_state: expected a generator of CUDA, got one of "
                f"{generator.device}"
            )

    def pool(self) -> Any:
        """Return the mark of its memory pool, to share it with another graph."""
        return (0, _cuda.graph_pool(self._graph))


class graph:
    """A context that captures what runs in it, on a side stream.

    Args:
        cuda_graph: the CUDAGraph to fill.
        pool: that of another graph, to share its memory.
        stream: the side stream; a new one by default.
        capture_error_mode: "global", "thread_local" or "relaxed".
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        if graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.mode = capture_error_mode
        side = graph.default_capture_stream if stream is None else stream
        self.stream_ctx: StreamContext = StreamContext(side)

    def __enter__(self) -> Self:
        synchronize()
        gc.collect()
        _cuda.empty_cache(_cuda.current_device())
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.mode)

    def __exit__(self, *exception: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*exception)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Return callables that replay graphs of what the given ones do, forward and backward.

    Arguments are copied into the memory that was captured. A module is changed in place: its
    forward replays while it is in the mode, training or evaluation, that it was captured in.

    Args:
        callables: modules or functions of tensors, one or a tuple of them in the order in which
            they will run.
        sample_args: a tuple of arguments, or one for each callable; of the shapes, dtypes and
            `requires_grad` of those to come.
        num_warmup_iters: how often each runs before it is captured.
        allow_unused_input: let there be arguments that results do not depend on.
        pool: the memory pool of another graph, to share.

    Returns:
        A callable or a tuple of them, as was given.

    Raises:
        RuntimeError: autocast caches casts, a module has hooks, or a buffer requires grad.
    """
    if rushlight.is_autocast_enabled("cuda") and rushlight.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "`cache_enabled=False`."
        )
    is_one = not isinstance(callables, tuple)
    if is_one:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(
            f"make_graphed_callables: {len(callables)} callables and arguments for "
            f"{len(sample_args)}"
        )
    from rushlight.cuda._graphed import Graphed

    own = [Graphed(f, args, allow_unused_input) for f, args in zip(callables, sample_args)]
    synchronize()
    if graph.default_capture_stream is None:
        graph.default_capture_stream = Stream()
    with StreamContext(graph.default_capture_stream):
        for each in own:
            each.warm_up(num_warmup_iters)
    synchronize()
    pool = graph_pool_handle() if pool is None else pool
    for each in own:
        each.capture_forward(pool)
    for each in reversed(own):
        each.capture_backward(pool)
    made = tuple(each.graphed() for each in own)
    return made[0] if is_one else made
