"""Steps whose elements are found by key."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes.datapipe import (
    DataChunk,
    MapDataPipe,
    _check_all,
    _Shuffled,
    functional_datapipe,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Self


class SequenceWrapper(MapDataPipe[Any]):
    """The elements of a sequence or dict.

    Args:
        sequence: what has them.
        deepcopy: a copy of it is taken.
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        super().__init__()
        import copy

        self.sequence: Any = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: int) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


def _same(element):
    return element


@functional_datapipe("map")
class Mapper(MapDataPipe[Any]):
    """fn of each element."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any] = _same) -> None:
        super().__init__()
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: int) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("concat")
class Concater(MapDataPipe[Any]):
    """The elements of the first, then those of the second, ..."""

    def __init__(self, *datapipes: Any) -> None:
        super().__init__()
        _check_all(datapipes, MapDataPipe)
        self.datapipes: Any = datapipes

    def __getitem__(self, index: int) -> Any:
        offset = 0
        for pipe in self.datapipes:
            if index - offset < len(pipe):
                return pipe[index - offset]
            offset += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class Zipper(MapDataPipe[Any]):
    """Tuples of an element of each."""

    def __init__(self, *datapipes: Any) -> None:
        super().__init__()
        _check_all(datapipes, MapDataPipe)
        self.datapipes: Any = datapipes

    def __getitem__(self, index: int) -> Any:
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


@functional_datapipe("batch")
class Batcher(MapDataPipe[Any]):
    """Batches of elements.

    Args:
        datapipe: the elements.
        batch_size: how many each.
        drop_last: a last one with fewer is left out.
        wrapper_class: the class of batches.
    """

    def __init__(
        self,
        datapipe: Any,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Any = DataChunk,
    ) -> None:
        super().__init__()
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        start = index * self.batch_size
        end = min(start + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(start, end)])

    def __len__(self) -> int:
        size = len(self.datapipe)
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


class Shuffler(_Shuffled):
    """The elements in a random order, one after the other.

    Args:
        datapipe: the elements.
        indices: their keys; by default from 0 on.
    """

    def __init__(self, datapipe: Any, *, indices: Sequence[int] | None = None) -> None:
        super().__init__()
        self.datapipe: Any = datapipe
        self.indices: Any = list(range(len(datapipe))) if indices is None else indices

    def __iter__(self) -> Iterator[Any]:
        order = list(self.indices)
        if self._enabled:
            order = self._generator().sample(order, len(order))[::-1]  # taken from the end
        for index in order:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_function("shuffle", Shuffler)

__all__ = ["Batcher", "Concater", "MapDataPipe", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
