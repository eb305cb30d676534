"""A call of a traced, scripted or loaded module in the source of another: its graph becomes a part
of that which is compiled."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.fx.node import map_arg
from rushlight.jit._values import CompilationError, Computed
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def call(builder: Any, module: Any, args: Any, kwargs: Any) -> Any:
    """What the module returns, as the compiler has it.

    Raises:
        CompilationError: it was recorded for arguments of another structure.
    """
    program = module._program
    args, kwargs = tuple(args), dict(kwargs)
    if hasattr(module, "_complete_call"):
        args, kwargs = module._complete_call(args, kwargs)
    lists = (lambda v: isinstance(v, list)) if program.takes_lists else None
    leaves, spec = tree_flatten((args, kwargs), lists)
    if spec != program.in_spec:
        raise CompilationError("jit.script: a recorded module is called with another structure")
    given, nodes = iter(leaves), {}
    for node in program.graph.nodes:
        if node.op == "output":
            results = [_value(builder, nodes, one) for one in node.args[0]]
            return tree_unflatten(results, program.out_spec)
        if node.op == "placeholder":
            is_input = node.meta["kind"] == "input"
            nodes[node] = builder.lower(next(given) if is_input else program._lifted_value(node))
        elif node.op == "get_attr":
            kind = node.target.rpartition("_")[0]
            path = f"{kind}_{len(builder.modules)}"
            builder.modules[path] = getattr(program.graph_module, node.target)
            nodes[node] = builder.graph.get_attr(path)
        else:
            placed = map_arg((node.args, node.kwargs), nodes.__getitem__)
            nodes[node] = builder.graph.call_function(node.target, tuple(placed[0]), placed[1])


def _value(builder, nodes, output):
    if output not in nodes:
        return output
    known = output.meta.get("val")
    if known is not None and not isinstance(known, Tensor):
        return Computed(builder, nodes[output], type(known).__name__)
    row = getattr(output.target, "row", None)
    made = builder.result(nodes[output], row.returns) if row is not None else None
    return made if isinstance(made, Computed) else Computed(builder, nodes[output], "Tensor")
