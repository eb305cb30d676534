"""Constraints on the order of passes: functions of two passes that tell whether the first may come
before the second.
"""

from __future__ import annotations

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def check_constraint(constraint: Callable[[Any, Any], bool], passes: Sequence[Any]) -> None:
    """Raise RuntimeError if a constraint does not allow the order of the passes."""
    for i, first in enumerate(passes):
        for j, second in enumerate(passes[i + 1 :], i + 1):
            if not constraint(first, second):
                raise RuntimeError(
                    f"pass schedule constraint violated: {second} must come before {first}, which "
                    f"are at {j} and {i}"
                )


def this_before_that_pass_constraint(
    this: Callable[..., Any], that: Callable[..., Any]
) -> Callable[[Any, Any], bool]:
    """A constraint: `this` comes before `that`."""

    def depends_on(a: Callable[..., Any], b: Callable[..., Any]) -> bool:
        return a != that or b != this

    return depends_on


set_module("rushlight.fx.passes.infra.pass_manager", this_before_that_pass_constraint)
