"""Looking into a graph module while it runs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.fx.graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule) -> GraphModule:
    """Let the debugger of Python stop where the module's forward begins.

    Args:
        gm: the module, which is recompiled; the next `recompile` takes the stop out.

    Returns:
        `gm`.
    """

    def with_stop(current):
        def lines(body):
            return ["import pdb; pdb.set_trace()\n", *(current(body) if current else body)]

        return lines

    with gm.graph.on_generate_code(make_transformer=with_stop):
        gm.recompile()
    return gm
