"""What autocast does to the arguments of a function that is written in Python."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])


def autocasts(policy: str) -> Callable[[_F], _F]:
    """Say that autocast gives the arguments of a function the dtype that `policy` names, as the
    column `autocast` does for an op of the table; others run as the ops that they call.
    """

    def mark(function: _F) -> _F:
        function._autocast = policy
        return function

    return mark
