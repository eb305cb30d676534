"""Steps that join several sources, or split one."""

from __future__ import annotations

from collections import deque
from typing import Any

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, _check_all, functional_datapipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """The elements of the first, then those of the second, ..."""

    def __init__(self, *datapipes: Any) -> None:
        super().__init__()
        _check_all(datapipes, IterDataPipe)
        self.datapipes: Any = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[Any]):
    """Tuples of an element of each, until one has no more."""

    def __init__(self, *datapipes: Any) -> None:
        super().__init__()
        _check_all(datapipes, IterDataPipe)
        self.datapipes: Any = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """An element of each in turn, until one has no more."""

    def __init__(self, *datapipes: Any) -> None:
        super().__init__()
        _check_all(datapipes, IterDataPipe)
        self.datapipes: Any = datapipes

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.datapipes):
            yield from row

    def __len__(self) -> int:
        return min(map(len, self.datapipes)) * len(self.datapipes)


class _ToAll:
    """The route of an element to each of several steps."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, element: Any) -> Any:
        return range(self.count)


class _ToOne:
    """The route of an element to the step that a function names, if any."""

    def __init__(self, count: int, classifier_fn: Any, drop_none: bool) -> None:
        self.count, self.classifier_fn, self.drop_none = count, classifier_fn, drop_none

    def __call__(self, element: Any) -> tuple[int, ...]:
        number = self.classifier_fn(element)
        if number is None and self.drop_none:
            return ()
        if number is None or not 0 <= number < self.count:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.count - 1}. "
                f"{number} is returned."
            )
        return (number,)


class _Shared:
    """A source that several steps read, each at its pace.

    Args:
        route: element -> the numbers of the steps that get it.
        buffer_size: how many elements a step may be behind; -1 for any number.
    """

    def __init__(self, datapipe: Iterable[Any], count: Any, route: Any, buffer_size: Any) -> None:
        super().__init__()
        self.datapipe, self.route, self.buffer_size = datapipe, route, buffer_size
        self._restart(count)

    def _restart(self, count: int) -> None:
        self.source: Iterator[Any] | None = None
        self.waiting: list[deque[Any]] = [deque() for _ in range(count)]
        self.readers: list[object | None] = [None] * count  # of the steps that have begun

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins anew: what is being read cannot be copied.
        nothing = [None] * len(self.waiting)
        return {**self.__dict__, "source": None, "readers": nothing,
                "waiting": [deque() for _ in nothing]}  # fmt: skip

    def read(self, number: Any) -> Iterator[Any]:
        """The elements of a step: the others join it, until one that has begun begins again."""
        if self.readers[number] is not None:
            self._restart(len(self.readers))
        reader = self.readers[number] = object()
        return self._elements(number, reader)

    def _elements(self, number, reader):
        if self.source is None:
            self.source = iter(self.datapipe)
        while True:
            if self.readers[number] is not reader:
                raise RuntimeError(
                    "This iterator has been invalidated: one of the steps that share its source "
                    "was begun a second time, so all begin anew"
                )
            if self.waiting[number]:
                yield self.waiting[number].popleft()
                continue
            try:
                element = next(self.source)
            except StopIteration:
                return
            for receiver in self.route(element):
                queue = self.waiting[receiver]
                if 0 <= self.buffer_size <= len(queue):
                    raise BufferError(
                        f"a step is {len(queue)} elements behind another: buffer_size is "
                        f"{self.buffer_size}"
                    )
                queue.append(element)


class _Part(IterDataPipe[Any]):
    """One of the steps that share a source."""

    def __init__(self, shared: Any, number: Any) -> None:
        super().__init__()
        self.main_datapipe, self.instance_id = shared, number

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.read(self.instance_id)


class _PartWithAll(_Part):
    """One of the steps that share a source, each of which has all elements."""

    def __len__(self) -> int:
        return len(self.main_datapipe.datapipe)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Several steps with the same elements: a list of them; of one, the source itself.

    Args:
        datapipe: the elements.
        num_instances: how many.
        buffer_size: how many elements one may be behind another; -1 for any number.
        copy: None for the elements themselves, "shallow" or "deep" for copies.
    """

    def __new__(
        cls, datapipe: Iterable[Any], num_instances: Any, buffer_size: int = 1000, copy: Any = None
    ) -> Any:
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, "
                             "`shallow` or `deep`.")  # fmt: skip
        if num_instances == 1:
            return datapipe
        import copy as copying

        how = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}[copy]
        everyone = range(num_instances)
        shared = _Shared(datapipe, num_instances, _ToAll(num_instances), buffer_size)
        parts = [_PartWithAll(shared, number) for number in everyone]
        return parts if how is None else [part.map(how) for part in parts]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Several steps, each with some of the elements: a list of them.

    Args:
        datapipe: the elements.
        num_instances: how many.
        classifier_fn: element -> the number of the step that gets it, or None.
        drop_none: elements of None are left out; else they are an error.
        buffer_size: how many elements may wait for a step; -1 for any number.
    """

    def __new__(
        cls,
        datapipe: Iterable[Any],
        num_instances: Any,
        classifier_fn: Any,
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )

        route = _ToOne(num_instances, classifier_fn, drop_none)
        shared = _Shared(datapipe, num_instances, route, buffer_size)
        return [_Part(shared, number) for number in range(num_instances)]
