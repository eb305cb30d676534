"""Questions about sizes: here numbers, or while a program is exported, symbols with the value of
the run that is recorded.

There is no environment in which expressions of symbols are kept: a symbol that is compared answers
by its value, and the program has a guard.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import rushlight
from rushlight import Tensor, _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.node import Node


SHAPEENV_EVENT_KEY = "shapeenv_event"
CURRENT_NODE_KEY = "current_node"
# Functions by which text of guards is computed.
SYMPY_INTERP: dict[str, Any] = {"Eq": operator.eq, "Ne": operator.ne, "Gt": operator.gt,
                                "Lt": operator.lt, "Le": operator.le, "Ge": operator.ge,
                                "Min": min, "Max": max, "Mod": operator.mod,
                                "PythonMod": operator.mod, "FloorDiv": operator.floordiv,
                                "TrueDiv": operator.truediv, "Abs": abs}  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """A branch depends on an element of a tensor."""


def _symbols_of(value):
    """The symbols of a recording in a value, a tensor or a container of these."""
    from rushlight.export._symbols import is_symbol

    if is_symbol(value):
        return [value]
    if isinstance(value, Tensor):
        return []  # sizes of tensors are numbers
    if isinstance(value, (tuple, list)):
        return [symbol for part in value for symbol in _symbols_of(part)]
    return []


def is_symbolic(val: Any) -> bool:
    """Is it a symbol of a program that is being exported?"""
    return bool(_symbols_of(val)) and not isinstance(val, (tuple, list))


def _is_concrete(a, kind):
    if not isinstance(a, kind):
        raise AssertionError(f"expected a {kind.__name__}, got {type(a).__name__}")
    return not is_symbolic(a)


def is_concrete_int(a: int) -> bool:
    """Is it a plain int?"""
    return _is_concrete(a, int)


def is_concrete_float(a: float) -> bool:
    """Is it a plain float?"""
    return _is_concrete(a, float)


def is_concrete_bool(a: bool) -> bool:
    """Is it a plain bool? All are: comparing a symbol answers at once."""
    return _is_concrete(a, bool)


def has_static_value(a: float) -> bool:
    """Is it a plain number?"""
    if not isinstance(a, (bool, int, float)):
        raise AssertionError(f"expected a number, got {type(a).__name__}")
    return not is_symbolic(a)


def _value(a, kinds):
    from rushlight.export._symbols import hint_of

    if not isinstance(a, kinds):
        raise AssertionError(f"expected a number, got {type(a).__name__}")
    return hint_of(a)


def guard_bool(a: bool) -> bool:
    """The truth value."""
    return bool(_value(a, bool))


def guard_int(a: int) -> int:
    """The number as a plain int: the exported program has it as it is now."""
    return int(_value(a, int))


def guard_float(a: float) -> float:
    """The number as a plain float: the exported program has it as it is now."""
    return float(_value(a, float))


def guard_scalar(a: float) -> float:
    """The number as a plain one: the exported program has it as it is now."""
    return _value(a, (bool, int, float))


def hint_int(a: int, fallback: int | None = None) -> int:
    """The value that a number has in the run that is recorded; all have one."""
    del fallback
    return guard_int(a)


def optimization_hint(a: int, fallback: int | None = None) -> int:
    """The value that a number has in the run that is recorded; all have one."""
    return hint_int(a, fallback)


def guarding_hint_or_throw(a: int) -> int:
    """The value that a number has in the run that is recorded."""
    return guard_scalar(a)


def _truth(a):
    if not isinstance(a, bool):
        raise AssertionError(f"expected a bool, got {type(a).__name__}")
    return a


def guard_or_false(a: bool) -> bool:
    """The truth value; it is always known."""
    return _truth(a)


def guard_or_true(a: bool) -> bool:
    """The truth value; it is always known."""
    return _truth(a)


def guard_size_oblivious(expr: bool) -> bool:
    """The truth value; it is always known."""
    return _truth(expr)


def statically_known_true(x: bool) -> bool:
    """Is it True?"""
    return _truth(x)


def statically_known_false(x: bool) -> bool:
    """Is it False?"""
    return not _truth(x)


definitely_true = statically_known_true
definitely_false = statically_known_false


def sym_and(x: Any, *others: Any) -> Any:
    """Do all hold?"""
    return functools.reduce(operator.and_, others, x)


def sym_or(x: Any, *others: Any) -> Any:
    """Does one hold?"""
    return functools.reduce(operator.or_, others, x)


def sym_eq(x: Any, y: Any) -> bool:
    """Are two numbers, or two sequences of numbers, the same?

    Raises: AssertionError for what is neither.
    """
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def create_contiguous(shape: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor of a shape."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(size * strides[-1])
    return strides[::-1]


def has_symbolic_sizes_strides(elem: Tensor) -> bool:
    """Has a tensor sizes that are symbols? None has."""
    return bool(_symbols_of(list(elem.shape)))


def free_symbols(val: Any) -> set[Any]:
    """The symbols in a value, a tensor or a sequence of these, as texts."""
    return {str(symbol) for symbol in _symbols_of(val)}


def has_free_symbols(val: Any) -> bool:
    """Are there symbols in a value, a tensor or a sequence of these?"""
    return bool(_symbols_of(val))


def free_unbacked_symbols(x: Any) -> set[Any]:
    """The symbols without a value: there are none."""
    del x
    return set()


def has_free_unbacked_symbols(x: Any) -> bool:
    """Are there symbols without a value? There are none."""
    return bool(free_unbacked_symbols(x))


def is_nested_int(s: Any) -> bool:
    """Is it the size of a nested tensor's ragged dim? None is a number of its own."""
    return isinstance(s, rushlight.SymInt) and hasattr(s, "is_nested_int")


def is_symbol_binding_fx_node(node: Node) -> str | None:
    """The symbol that an input of a program is, or None."""
    value = node.meta.get("val")
    symbols = _symbols_of(value)
    return str(symbols[0]) if node.op == "placeholder" and symbols else None


def is_accessor_node(node: Node) -> bool:
    """Does a node ask for a size, a stride, an offset, or an element of a tensor?"""
    if node.op == "call_method" and node.target in ("size", "stride", "storage_offset", "item"):
        return isinstance(node.args[0].meta.get("example_value"), Tensor)
    name = getattr(node.target, "_opname", "")
    return node.op == "call_function" and name in (
        "sym_size", "sym_stride", "sym_storage_offset", "sym_numel",
    )  # fmt: skip


def check_consistent(new: Any, old: Any) -> None:
    """Raise RuntimeError unless two tensors have the same shape, or two numbers the same value."""
    if isinstance(new, Tensor):
        if not isinstance(old, Tensor):
            raise AssertionError(f"check_consistent: {type(old).__name__} is no tensor")
        rushlight._check(old.shape == new.shape, lambda: f"{old.shape} != {new.shape} (old != new)")
    elif isinstance(new, (int, float)) and not isinstance(new, bool):
        if not isinstance(old, (int, float)) or isinstance(old, bool):
            raise AssertionError(f"check_consistent: {old} != {new}")
        rushlight._check(bool(old == new), lambda: f"{old} != {new} (old != new)")


_REASON = (
    "there is no environment of symbolic shapes: sizes that may change are symbols of the program "
    "that torch.export.export records, told by torch.export.Dim"
)
_ABSENT = _absent.refused(
    dict.fromkeys(
        (
            "ShapeEnv",
            "DimConstraints",
            "SymbolicContext",
            "StatelessSymbolicContext",
            "StatefulSymbolicContext",
            "SubclassSymbolicContext",
            "SymIntSymbolicContext",
            "TrackedFake",
            "ConvertIntKey",
            "ValueRangesSLoc",
            "SymIntEqByExpr",
            "Specialization",
            "canonicalize_bool_expr",
            "compute_unbacked_bindings",
            "rebind_unbacked",
            "resolve_unbacked_bindings",
        ),
        _REASON,
    )
)
globals().update(_ABSENT)

__all__ = [
    "CURRENT_NODE_KEY",
    "SHAPEENV_EVENT_KEY",
    "SYMPY_INTERP",
    "GuardOnDataDependentSymNode",
    "check_consistent",
    "create_contiguous",
    "definitely_false",
    "definitely_true",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "guarding_hint_or_throw",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "has_static_value",
    "has_symbolic_sizes_strides",
    "hint_int",
    "is_accessor_node",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_nested_int",
    "is_symbol_binding_fx_node",
    "is_symbolic",
    "optimization_hint",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
    *_ABSENT,
]
