"""Samplers: the order in which a `DataLoader` visits a dataset.

From the same seed each gives the same order as torch, draw for draw.
"""

import itertools
import types

import rushlight

# With replacement, indices are drawn in blocks of this size; the sequence depends on it.
_BLOCK = 32


def draw_seed(generator=None):
    """Draw a non-negative 63-bit seed from `generator`, by default from the global one."""
    empty = rushlight.empty((), dtype=rushlight.int64)
    return empty.random_(generator=generator).item()


class Sampler:
    """An iterable over the keys of a dataset: subclasses define `__iter__` and may `__len__`."""

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler):
    """0, 1, 2, ... in order."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """A random order.

    Args:
        data_source: anything with a length.
        replacement: draw independently, so that keys may repeat.
        num_samples: how many to draw; by default the length of `data_source`.
        generator: source of randomness; by default one seeded from the global generator.
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement must be a bool, not {replacement!r}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples < 0:
            raise ValueError(
                f"RandomSampler: num_samples must be a non-negative integer, not {num_samples!r}"
            )

    @property
    def num_samples(self):
        # The data source may grow between epochs.
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        generator = self.generator
        if generator is None:
            generator = rushlight.Generator()
            generator.manual_seed(draw_seed())
        yield from self._draws(generator) if self.replacement else self._permutations(generator)

    def _draws(self, generator):
        for start in range(0, self.num_samples, _BLOCK):
            size = (min(_BLOCK, self.num_samples - start),)
            draws = rushlight.randint(
                len(self.data_source), size, dtype=rushlight.int64, generator=generator
            )
            yield from draws.tolist()

    def _permutations(self, generator):
        size = len(self.data_source)
        if size == 0 and self.num_samples:
            raise ValueError("RandomSampler: cannot draw from an empty data source")
        if size == 0:
            return
        for _ in range(self.num_samples // size):
            yield from rushlight.randperm(size, generator=generator).tolist()
        # Drawn even if nothing of it is used, as in torch: the next epoch's order depends on it.
        rest = rushlight.randperm(size, generator=generator).tolist()
        yield from rest[: self.num_samples % size]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """A random order of the given indices, without replacement."""

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for position in rushlight.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[position]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with probabilities in proportion to `weights`, which need not sum to one."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                "WeightedRandomSampler: num_samples must be a positive integer, not"
                f" {num_samples!r}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"WeightedRandomSampler: replacement must be a bool, not {replacement!r}"
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

    def __iter__(self):
        draws = rushlight.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from iter(draws.tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` keys of another sampler; `drop_last` leaves out a short last one."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"BatchSampler: batch_size must be a positive integer, not {batch_size!r}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be a bool, not {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        keys = iter(self.sampler)
        while batch := list(itertools.islice(keys, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self):
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)
