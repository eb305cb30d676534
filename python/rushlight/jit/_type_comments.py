"""The types of arguments that a function says, in annotations or in comments, as older programs do:

def forward(self, x, n):
    # type: (Tensor, int) -> Tensor
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """{name: type} of the arguments whose type is given.

    Raises:
        NameError, TypeError: an annotation cannot be read.
    """
    function = inspect.unwrap(function)
    hints = typing.get_type_hints(function)
    return hints or _hints_of_comments(getattr(function, "__func__", function))


def _hints_of_comments(function):
    try:
        source = textwrap.dedent(inspect.getsource(function))
        if "type:" not in source:
            return {}
        tree = ast.parse(source, type_comments=True).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    if not isinstance(tree, ast.FunctionDef):
        return {}
    given = tree.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    noted = [(a.arg, a.type_comment) for a in arguments if a.type_comment]
    found = {name: ast.parse(text, mode="eval").body for name, text in noted}
    if tree.type_comment:
        whole = ast.parse(tree.type_comment, mode="func_type")
        found["return"] = whole.returns
        if [ast.unparse(kind) for kind in whole.argtypes] != ["..."]:
            if len(whole.argtypes) < len(arguments):  # `self` has none
                arguments = arguments[len(arguments) - len(whole.argtypes) :]
            found |= {a.arg: kind for a, kind in zip(arguments, whole.argtypes)}
    closure = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
    names = {**vars(typing), "Tensor": rushlight.Tensor, **function.__globals__, **closure}
    return {name: eval(ast.unparse(kind), names) for name, kind in found.items()}
