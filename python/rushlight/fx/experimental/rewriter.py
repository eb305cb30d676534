"""Tracing of functions with `assert` statements and annotated variables, rewritten before."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from types import FunctionType

from rushlight.fx._symbolic_trace import Tracer
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.fx.graph import Graph

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):
    """Rewrites a function: `assert` becomes a call of `torch._assert`, and an annotated variable
    one of `annotate`, which the function's module must have.
    """

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """The function with its source rewritten.

        Raises: OSError if its source is not known.
        """
        fn = getattr(fn, "__func__", fn)
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
        tree = ast.fix_missing_locations(self.visit(tree))
        names = dict(fn.__globals__)
        exec(compile(tree, inspect.getsourcefile(fn) or "", "exec"), names)
        made = names[fn.__name__]
        code = made.__code__.replace(co_freevars=fn.__code__.co_freevars)
        new = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
        new.__kwdefaults__ = copy.copy(fn.__kwdefaults__)
        return new

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """The call in the place of an `assert`."""
        function = ast.parse("torch._assert", mode="eval").body
        call = ast.Call(function, [node.test, node.msg or ast.Constant("")], [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        """The assignment in the place of an annotated one."""
        function = ast.Name("annotate", ast.Load())
        call = ast.Call(function, [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], call), node)


def _rewritten(module):
    """A module with the attributes of another, whose forward is rewritten, as are those inside."""

    class RewrittenModule(Module):
        def __init__(self, original: Module) -> None:
            super().__init__()
            self.__dict__.update({k: copy.copy(v) for k, v in vars(original).items()})
            for name, child in original.named_children():
                own = not type(child).__module__.startswith(("rushlight.nn", "torch.nn"))
                self._modules[name] = _rewritten(child) if own else child

    RewrittenModule.forward = AST_Rewriter().rewrite(type(module).forward)
    return RewrittenModule(module)


class RewritingTracer(Tracer):
    """Records a program with its `assert` statements and annotated variables."""

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """See `Tracer.trace`."""
        is_module = isinstance(root, Module)
        rewritten = _rewritten(root) if is_module else AST_Rewriter().rewrite(root)
        return super().trace(rewritten, concrete_args)
