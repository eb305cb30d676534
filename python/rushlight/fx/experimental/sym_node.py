"""Functions of sizes that may change, for plain numbers and for the symbols of recordings."""

from __future__ import annotations

import operator

from rushlight import _absent
from rushlight._symbolic_numbers import (
    _sym_acos as sym_acos,
    _sym_asin as sym_asin,
    _sym_atan as sym_atan,
    _sym_cos as sym_cos,
    _sym_cosh as sym_cosh,
    _sym_log2 as sym_log2,
    _sym_sin as sym_sin,
    _sym_sinh as sym_sinh,
    _sym_sqrt as sym_sqrt,
    _sym_tan as sym_tan,
    _sym_tanh as sym_tanh,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_FUNCTIONS = (
    sym_acos, sym_asin, sym_atan, sym_cos, sym_cosh, sym_log2, sym_sin, sym_sinh, sym_sqrt, sym_tan,
    sym_tanh,
)  # fmt: skip
_OPERATORS = (
    "add", "and", "eq", "floordiv", "ge", "gt", "le", "lshift", "lt", "mod", "mul", "ne", "neg",
    "or", "pos", "pow", "rshift", "sub", "truediv",
)  # fmt: skip

# {name of a method: function of numbers}
magic_methods: dict[str, Callable[..., Any]] = {
    name: getattr(operator, f"{name}_" if name in ("and", "or") else name) for name in _OPERATORS
} | {function.__name__.lstrip("_"): function for function in _FUNCTIONS}


def method_to_operator(method: str) -> Callable[..., Any]:
    """The function of numbers that a method of symbolic ones does.

    Raises: KeyError if there is none of the name.
    """
    return magic_methods[method]


_ABSENT = _absent.refused(
    {
        "SymNode": "numbers of a recording are torch.SymInt and torch.SymFloat; there is no "
        "environment of shapes that keeps expressions of them",
        "DynamicInt": "a number that may change is an input of torch.export.export with "
        "Dim.DYNAMIC",
    }
)
globals().update(_ABSENT)

__all__ = [
    "magic_methods",
    "method_to_operator",
    "sym_acos",
    "sym_asin",
    "sym_atan",
    "sym_cos",
    "sym_cosh",
    "sym_log2",
    "sym_sin",
    "sym_sinh",
    "sym_sqrt",
    "sym_tan",
    "sym_tanh",
    *_ABSENT,
]
