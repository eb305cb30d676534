"""Samplers: the order in which a `DataLoader` visits a dataset.

From the same seed each gives the same order as torch, draw for draw.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import rushlight
from rushlight import Generator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


# With replacement, indices are drawn in blocks of this size; the sequence depends on it.
_BLOCK = 32


def draw_seed(generator: Generator | None = None) -> int:
    """Draw a non-negative 63-bit seed from `generator`, by default from the global one."""
    empty = rushlight.empty((), dtype=rushlight.int64)
    return empty.random_(generator=generator).item()


_T_co = TypeVar("_T_co", covariant=True)


class Sampler(Generic[_T_co]):
    """An iterable over the keys of a dataset: subclasses define `__iter__` and may `__len__`."""

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order.

    Args:
        data_source: anything with a length.
        replacement: draw independently, so that keys may repeat.
        num_samples: how many to draw; by default the length of `data_source`.
        generator: source of randomness; by default one seeded from the global generator.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(
                f"RandomSampler: replacement should be a boolean value, but got {replacement=}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "RandomSampler: num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples!r}"
            )

    @property
    def num_samples(self) -> int:
        # The data source may grow between epochs.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = rushlight.Generator()
            generator.manual_seed(draw_seed())
        for keys in self._draws(generator) if self.replacement else self._permutations(generator):
            yield from keys

    def _draws(self, generator):
        for start in range(0, self.num_samples, _BLOCK):
            size = (min(_BLOCK, self.num_samples - start),)
            draws = rushlight.randint(
                len(self.data_source), size, dtype=rushlight.int64, generator=generator
            )
            yield draws.tolist()

    def _permutations(self, generator):
        size = len(self.data_source)
        if size == 0 and self.num_samples:
            raise ValueError("RandomSampler: cannot draw from an empty data source")
        if size == 0:
            return
        for _ in range(self.num_samples // size):
            yield rushlight.randperm(size, generator=generator).tolist()
        # Drawn even if nothing of it is used, as in torch: the next epoch's order depends on it.
        rest = rushlight.randperm(size, generator=generator)
        yield rest[: self.num_samples % size].tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A random order of the given indices, without replacement."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for position in rushlight.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to `weights`, which need not sum to one."""

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                "WeightedRandomSampler: num_samples must be a positive integer, not"
                f" {num_samples!r}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                "WeightedRandomSampler: replacement should be a boolean value, but got "
                f"{replacement=}"
            )
        weights = rushlight.as_tensor(weights, dtype=rushlight.float64)
        if weights.dim() != 1:
            raise ValueError(
                f"WeightedRandomSampler: weights must be 1-dimensional, not {tuple(weights.shape)}"
            )
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        draws = rushlight.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from iter(draws.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler["list[int]"]):
    """Lists of `batch_size` keys of another sampler; `drop_last` leaves out a short last one."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"BatchSampler: batch_size must be a positive integer, not {batch_size!r}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be a bool, not {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        yield from self._batches(self.sampler)

    def _batches(self, keys):
        # islice asks its argument for an iterator each time, at which some samplers start again;
        # that of a chain is itself.
        keys = itertools.chain(keys)
        while batch := list(itertools.islice(keys, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)
