"""Datasets: what a `DataLoader` reads from, and the ways to combine and split them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import rushlight
from rushlight import Generator, Tensor
from rushlight._ignored import older_name, warn_program as _warn_program

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A map from keys to samples: subclasses define `__getitem__` and, usually, `__len__`.

    A subclass may also define `__getitems__(keys)`, which returns the samples of a whole batch.
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """A stream of samples: subclasses define `__iter__`.

    With several workers each one iterates over a copy of its own; use `get_worker_info()` to give
    each a different part.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other: Any) -> ChainDataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset["tuple[Tensor, ...]"]):
    """Samples are tuples of the rows of tensors that agree in their first size."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [tensor.size(0) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"TensorDataset: Size mismatch between tensors: {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[_T_co]):
    """Samples are tuples (positional) or dicts (keywords) of the samples of several datasets.

    Example:
        >>> pairs = StackDataset(image=[1, 2], text=["one", "two"])
        >>> pairs[0]
        {'image': 1, 'text': 'one'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed")
        if args and kwargs:
            raise ValueError(
                "StackDataset: Supported either positional or keyword datasets, not both"
            )
        self.datasets: tuple[Any, ...] | dict[str, Any] = args if args else kwargs
        sizes = [len(dataset) for dataset in self._children()]
        if len(set(sizes)) > 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets: {sizes}")
        self._length = sizes[0]

    def _children(self):
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _join(self, samples):
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, samples, strict=True))
        return tuple(samples)

    def __getitem__(self, index: int) -> Any:
        return self._join([dataset[index] for dataset in self._children()])

    def __getitems__(self, indices: list[Any]) -> Any:
        columns = [_get_items(dataset, indices) for dataset in self._children()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    "StackDataset: Nested dataset's output size mismatch. Expected "
                    f"{len(indices)}, got {len(column)} samples from its __getitems__"
                )
        return [self._join(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Several datasets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes: Any = self.cumsum(self.datasets)
        super().__init__()

    @property
    def cummulative_sizes(self) -> Any:
        """The older name of `cumulative_sizes`."""
        older_name("ConcatDataset.cummulative_sizes", "cumulative_sizes")
        return self.cumulative_sizes

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> Any:
        """Return where each dataset of `sequence` ends in the concatenation."""
        return list(itertools.accumulate(map(len, sequence)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"ConcatDataset: absolute value of index {index} should not exceed"
                    f" dataset length {len(self)}"
                )
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"ConcatDataset: index {index} out of range for length {len(self)}")
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - start]


class ChainDataset(IterableDataset[_T_co]):
    """Several iterable datasets, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            self._check(dataset)
            yield from dataset

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            self._check(dataset)
            total += len(dataset)
        return total

    @staticmethod
    def _check(dataset):
        if not isinstance(dataset, IterableDataset):
            raise AssertionError("ChainDataset only supports IterableDataset")


class Subset(Dataset[_T_co]):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return _get_items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def _get_items(dataset, indices):
    if getattr(dataset, "__getitems__", None):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


def random_split(
    dataset: Dataset[_T], lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[_T]]:
    """Split `dataset` at random into non-overlapping subsets.

    Args:
        dataset: the dataset to split.
        lengths: sizes, or fractions that sum to 1; what rounding leaves over goes round the parts.
        generator: source of the permutation; by default the global one.

    Returns:
        A list of `Subset`.

    Example:
        >>> train, test = random_split(digits, [0.8, 0.2], rushlight.Generator().manual_seed(1))
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _sizes_from_fractions(lengths, total)
    if sum(lengths) != total:
        raise ValueError(
            f"random_split: Sum of input lengths {list(lengths)} does not equal the length of the"
            f" input dataset, {total}"
        )
    order = rushlight.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [
        Subset(dataset, order[end - size : end]) for size, end in zip(lengths, ends, strict=True)
    ]


def _sizes_from_fractions(fractions, total):
    for position, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {position} is not between 0 and 1: {fraction}")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for extra in range(total - sum(sizes)):
        sizes[extra % len(sizes)] += 1
    for position, size in enumerate(sizes):
        if size == 0:
            _warn_program(
                f"Length of split at index {position} is 0. This might result in an empty dataset.",
            )
    return sizes
