"""What operations would be compiled as: a table that programs add to, and no compiler reads."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

decompositions: dict[Any, Callable[..., Any]] = {}


def register_decomposition(ops: Any | Sequence[Any]) -> Callable[[Any], Any]:
    """A decorator: enter a function of simpler operations into the table.

    Args:
        ops: an operation or several.
    """

    def register(function):
        for op in ops if isinstance(ops, (list, tuple)) else [ops]:
            decompositions[op] = function
        return function

    return register
