"""Several epochs as one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from typing_extensions import Self


class CyclingIterator:
    """Goes through the iterators of several epochs, one after the other.

    Args:
        n: the epoch after the last.
        generator_fn: generator_fn(epoch) gives its iterator.
        start_epoch: the first.

    Example:
        >>> list(CyclingIterator(2, lambda epoch: iter([epoch, 10 + epoch])))
        [0, 10, 1, 11]
    """

    def __init__(
        self, n: int, generator_fn: Callable[[int], Iterator[Any]], start_epoch: int = 0
    ) -> None:
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = generator_fn(start_epoch)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
            self._epoch += 1
            self._iter = self._generator_fn(self._epoch)


__all__ = ["CyclingIterator"]
