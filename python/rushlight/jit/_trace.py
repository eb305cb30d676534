"""Where libraries look for the tracer's names."""

from rushlight.jit import TracerWarning, is_tracing
from rushlight.jit._modules import trace, trace_module
from rushlight.jit._trace_graph import get_trace_graph as _get_trace_graph

__all__ = ["TracerWarning", "_get_trace_graph", "is_tracing", "trace", "trace_module"]
