"""A call of a traced, scripted or loaded module in the source of another: its graph becomes a part
of that which is compiled."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.export._inlining import Inlining
from rushlight.export.exported_program import GuardError
from rushlight.jit._values import CompilationError, Computed

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
    try:
        leaves = program._leaves(args, kwargs)
    except GuardError:
        raise CompilationError(
            "jit.script: a recorded module is called with another structure"
        ) from None
    return _Inlined(builder, program).run(leaves)


class _Inlined(Inlining):
    def result(self, node):
        made, known = self.nodes[node], node.meta.get("val")
        if known is not None and not isinstance(known, Tensor):
            return Computed(self.into, made, type(known).__name__)
        row = getattr(node.target, "row", None)
        found = self.into.result(made, row.returns) if row is not None else None
        return found if isinstance(found, Computed) else Computed(self.into, made, "Tensor")
