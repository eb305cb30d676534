"""A set that keeps the order in which its elements came."""

from __future__ import annotations

from collections.abc import MutableSet
from typing import Any, Generic, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Self

T = TypeVar("T")


class OrderedSet(MutableSet[T], Generic[T]):
    """A set whose elements are iterated in the order in which they were added."""

    def __init__(self, iterable: Iterable[T] | None = None) -> None:
        self._dict = dict.fromkeys(iterable or ())

    def __contains__(self, element: object) -> bool:
        return element in self._dict

    def __iter__(self) -> Iterator[T]:
        return iter(self._dict)

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def add(self, value: T) -> None:
        """Add an element, as the last unless it is there."""
        self._dict[value] = None

    def discard(self, value: T) -> None:
        """Remove an element if it is there."""
        self._dict.pop(value, None)

    def copy(self) -> Self:
        """A set of the same elements in the same order."""
        return type(self)(self)

    def update(self, *others: Iterable[T]) -> None:
        """Add all elements of the others."""
        for other in others:
            self._dict.update(dict.fromkeys(other))

    def union(self, *others: Iterable[T]) -> Self:
        """The elements of this set and of all others."""
        result = self.copy()
        result.update(*others)
        return result

    def intersection(self, *others: Iterable[T]) -> Self:
        """The elements that are in all others too."""
        sets = [set(other) for other in others]
        return type(self)(x for x in self if all(x in s for s in sets))

    def difference(self, *others: Iterable[T]) -> Self:
        """The elements that are in none of the others."""
        sets = [set(other) for other in others]
        return type(self)(x for x in self if not any(x in s for s in sets))

    def symmetric_difference(self, other: Iterable[T]) -> Self:
        """The elements that are in one of the two alone."""
        return type(self)(self ^ type(self)(other))

    def difference_update(self, *others: Iterable[T]) -> None:
        """Remove all elements of the others."""
        for other in others:
            for x in other:
                self.discard(x)

    def issubset(self, other: Iterable[T]) -> bool:
        """Is each element in the other?"""
        return self <= set(other)

    def issuperset(self, other: Iterable[T]) -> bool:
        """Is each element of the other here?"""
        return all(x in self for x in other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Self:
        return cls(it)
