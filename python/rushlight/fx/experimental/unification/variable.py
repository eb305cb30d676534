"""Variables of expressions."""

from __future__ import annotations

import contextlib
import itertools

from rushlight.fx.experimental.unification.utils import hashable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from typing import Any

__all__ = ["Var", "isvar", "var", "variables", "vars"]

_ids = itertools.count(1)
_declared: set[Any] = set()


class Var:
    """A variable, known by its token; each without one is another."""

    token: Any

    def __new__(cls, *token: Hashable) -> Var:  # noqa: PYI034
        made = object.__new__(cls)
        made.token = token[0] if len(token) == 1 else token or f"_{next(_ids)}"
        return made

    def __repr__(self) -> str:
        return f"~{self.token}"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.token == other.token

    def __hash__(self) -> int:
        return hash((type(self), self.token))


def var() -> Callable[..., Var]:
    """A function that makes variables of tokens."""
    return lambda *token: Var(*token)


def vars() -> Callable[[int], list[Callable[..., Var]]]:
    """A function that makes a number of such functions."""
    return lambda n: [var() for _ in range(n)]


def isvar(v: object) -> bool:
    """Is it a variable, or was it declared one by `variables`?"""
    return isinstance(v, Var) or bool(_declared and hashable(v) and v in _declared)


@contextlib.contextmanager
def variables(*variables: Hashable) -> Iterator[None]:
    """A context in which values are variables."""
    before = set(_declared)
    _declared.update(variables)
    try:
        yield
    finally:
        _declared.clear()
        _declared.update(before)
