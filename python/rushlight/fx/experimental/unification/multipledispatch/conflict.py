"""Which of several signatures is meant, and where that is not clear."""

from __future__ import annotations

from rushlight.fx.experimental.unification.multipledispatch.utils import topological
from rushlight.fx.experimental.unification.multipledispatch.variadic import isvariadic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

__all__ = [
    "AmbiguityWarning",
    "ambiguities",
    "ambiguous",
    "consistent",
    "edge",
    "ordering",
    "super_signature",
    "supercedes",
]


class AmbiguityWarning(Warning):
    """Arguments fit two signatures, of which none is more special."""


def _pairs(a, b):
    """The types that the same argument is of, or None where the numbers cannot be the same."""
    many_a, many_b = bool(a) and isvariadic(a[-1]), bool(b) and isvariadic(b[-1])
    length = max(len(a), len(b))
    if (len(a) - many_a > len(b) and not many_b) or (len(b) - many_b > len(a) and not many_a):
        return None
    if len(a) < length and not many_a and not (many_b and len(b) - 1 <= len(a)):
        return None
    if len(b) < length and not many_b and not (many_a and len(a) - 1 <= len(b)):
        return None
    return [
        (a[min(i, len(a) - 1)], b[min(i, len(b) - 1)])
        for i in range(length)
        if (i < len(a) or many_a) and (i < len(b) or many_b)
    ]


def supercedes(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Do all arguments that fit the first signature fit the second too?"""
    many_a, many_b = bool(a) and isvariadic(a[-1]), bool(b) and isvariadic(b[-1])
    if (many_a and not many_b) or (len(a) != len(b) and not many_b):
        return False
    fixed = len(b) - many_b
    if len(a) - many_a < fixed:
        return False
    return all(issubclass(kind, b[min(i, len(b) - 1)]) for i, kind in enumerate(a))


def consistent(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Can arguments fit both signatures?"""
    pairs = _pairs(a, b)
    return pairs is not None and all(issubclass(x, y) or issubclass(y, x) for x, y in pairs)


def ambiguous(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Can arguments fit both signatures, of which none is more special?"""
    return consistent(a, b) and not (supercedes(a, b) or supercedes(b, a))


def ambiguities(signatures: Iterable[tuple[Any, ...]]) -> set[Any]:
    """The pairs that are ambiguous, where no third signature is more special than both."""
    listed = list(map(tuple, signatures))
    return {
        (a, b)
        for i, a in enumerate(listed)
        for b in listed[i + 1 :]
        if ambiguous(a, b) and not any(supercedes(c, a) and supercedes(c, b) for c in listed)
    }


def super_signature(signatures: Sequence[tuple[Any, ...]]) -> list[type]:
    """A signature that is more special than all of those given, of one length."""
    length = len(signatures[0])
    if any(len(s) != length for s in signatures):
        raise AssertionError(f"super_signature: {signatures} are not of one length")
    return [max((s[i] for s in signatures), key=lambda t: len(t.mro())) for i in range(length)]


def edge(a: tuple[Any, ...], b: tuple[Any, ...], tie_breaker: Callable[[Any], Any] = hash) -> bool:
    """Is the first signature tried before the second? The tie breaker decides between equals."""
    return supercedes(a, b) and (not supercedes(b, a) or tie_breaker(a) > tie_breaker(b))


def ordering(signatures: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The order in which signatures are tried."""
    return topological(list(map(tuple, signatures)), edge)
