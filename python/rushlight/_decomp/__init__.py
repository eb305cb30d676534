"""Tables of operations in terms of others, for `make_fx` and `run_decompositions`."""

from __future__ import annotations

from rushlight.export.decomp_utils import CustomDecompTable
from rushlight.export.decompositions import default_table
from rushlight.library._operator import OpOverloadPacket
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_Table = "dict[Any, Callable[..., Any]]"
global_decomposition_table: dict[str, _Table] = {
    "post_autograd": default_table(),
    "pre_autograd": {},
    "meta": {},
}
decomposition_table = global_decomposition_table["post_autograd"]


def _table_of(type):
    if type not in global_decomposition_table:
        raise AssertionError(f"type must be one of {list(global_decomposition_table)}, got {type}")
    return global_decomposition_table[type]


def _overloads(op: Any, known: Iterable[Any]) -> list[Any]:
    """Those of an operation that are known; an overload is itself one."""
    if isinstance(op, OpOverloadPacket):
        return [one for one in known if getattr(one, "overloadpacket", None) is op]
    return [op] if op in known else []


def register_decomposition(
    aten_op: Any, registry: _Table | None = None, *, type: str = "post_autograd"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: enter a function for an operation, or those in lists, into a table."""
    table = _table_of(type)

    def register(function):
        for op in pytree.tree_leaves(aten_op):
            names = op.overloads() if isinstance(op, OpOverloadPacket) else ()
            for one in [getattr(op, name) for name in names] or [op]:
                (table if registry is None else registry)[one] = function
        return function

    return register


def get_decompositions(aten_ops: Iterable[Any], type: str = "post_autograd") -> _Table:
    """What a table has of some operations; of one without an overload, all."""
    table = _table_of(type)
    return {one: table[one] for op in aten_ops for one in _overloads(op, table)}


def remove_decompositions(decompositions: _Table, aten_ops: Iterable[Any]) -> None:
    """Take operations out of a table, if they are there."""
    for op in aten_ops:
        for one in _overloads(op, decompositions):
            del decompositions[one]


def core_aten_decompositions() -> CustomDecompTable:
    """The table that `run_decompositions` has where none is given."""
    return CustomDecompTable()
