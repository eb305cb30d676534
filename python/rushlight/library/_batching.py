"""How vmap computes a custom operation that has a rule of its own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def batching_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `func._batching` wants it, of a rule as `register_vmap` takes it."""

    def rule(level, op, args, kwargs):
        from rushlight.func._vmap import by_rule_of_program

        return by_rule_of_program(level, str(op), function, args, **kwargs)

    return rule
