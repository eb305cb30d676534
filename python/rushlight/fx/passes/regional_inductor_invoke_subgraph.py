"""Compiling parts of graphs that are calls of subgraphs."""

from rushlight import _absent

_ABSENT = _absent.refused(
    {
        "regional_inductor_invoke_subgraph": "there is no Inductor to compile a region with; "
        "compile a function by torch.compile"
    }
)
globals().update(_ABSENT)

__all__ = list(_ABSENT)
