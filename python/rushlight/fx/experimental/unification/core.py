"""Finding values for variables, and putting them in."""

from __future__ import annotations

from rushlight.fx.experimental.unification.unification_tools import assoc
from rushlight.fx.experimental.unification.utils import transitive_get
from rushlight.fx.experimental.unification.variable import isvar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["reify", "unify"]

# Of objects of other classes, which `unifiable` enters.
_unifiers: dict[type, Callable[..., Any]] = {}
_reifiers: dict[type, Callable[..., Any]] = {}


def reify(e: Any, s: dict[Any, Any]) -> Any:
    """An expression with values for its variables.

    Example:
        >>> from rushlight.fx.experimental.unification import reify, var
        >>> x, y = var()("x"), var()("y")
        >>> reify((1, x, [3, y]), {x: 2, y: 4})
        (1, 2, [3, 4])
    """
    if isvar(e):
        return reify(s[e], s) if e in s else e
    if isinstance(e, (tuple, list)):
        return type(e)([reify(v, s) for v in e])
    if isinstance(e, dict):
        return {k: reify(v, s) for k, v in e.items()}
    if isinstance(e, slice):
        return slice(reify(e.start, s), reify(e.stop, s), reify(e.step, s))
    function = _reifiers.get(type(e))
    return e if function is None else function(e, s)


def unify(u: Any, v: Any, s: dict[Any, Any] | None = None) -> dict[Any, Any] | bool:
    """Values for variables with which two expressions are the same.

    Args:
        u, v: the expressions.
        s: values that are known.

    Returns:
        {variable: value}, or False if there are none.

    Example:
        >>> from rushlight.fx.experimental.unification import unify, var
        >>> unify((1, var()("x")), (1, 2))
        {~x: 2}
    """
    s = {} if s is None else s
    u, v = transitive_get(u, s), transitive_get(v, s)
    if u == v:
        return s
    if isvar(u):
        return assoc(s, u, v)
    if isvar(v):
        return assoc(s, v, u)
    return _unify_parts(u, v, s)


def _unify_parts(u, v, s):
    if isinstance(u, (tuple, list)) and isinstance(v, (tuple, list)):
        return _unify_pairs(zip(u, v), s) if len(u) == len(v) else False
    if isinstance(u, dict) and isinstance(v, dict):
        return _unify_pairs(((u[k], v[k]) for k in u), s) if u.keys() == v.keys() else False
    if isinstance(u, slice) and isinstance(v, slice):
        parts = ("start", "stop", "step")
        return _unify_pairs(((getattr(u, p), getattr(v, p)) for p in parts), s)
    function = _unifiers.get(type(u))
    return False if function is None else function(u, v, s)


def _unify_pairs(pairs, s):
    for a, b in pairs:
        s = unify(a, b, s)
        if s is False:
            return False
    return s
