"""The import path `utils.data._utils.fetch` of existing programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.utils.data.reader import BatchReader, Exhausted, Source


class _BaseDatasetFetcher:
    """Reads the batches of one epoch."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: type[Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the batch of these keys, or the sample of this one."""
        raise NotImplementedError(f"{type(self).__name__} does not define fetch")


class _DatasetFetcher(_BaseDatasetFetcher):
    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: type[Any], drop_last: bool
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        streams = isinstance(self, _IterableDatasetFetcher)
        self._reader = BatchReader(Source(dataset, collate_fn, auto_collation, drop_last, streams))

    def fetch(self, possibly_batched_index: Sequence[None] | int) -> Any:
        try:
            return self._reader.read(possibly_batched_index)
        except Exhausted:
            raise StopIteration from None


class _IterableDatasetFetcher(_DatasetFetcher):
    """Reads from a stream, of which the keys only give the number of samples.

    Attributes:
        dataset_iter: the stream, and `ended`: whether its end was read; loaders that resume set
            both.
    """

    @property
    def dataset_iter(self) -> Any:
        return self._reader._iterator

    @dataset_iter.setter
    def dataset_iter(self, stream: Any) -> None:
        self._reader._iterator = stream

    @property
    def ended(self) -> bool:
        return self._reader._ended

    @ended.setter
    def ended(self, value: bool) -> None:
        self._reader._ended = value


class _MapDatasetFetcher(_DatasetFetcher):
    """Reads by keys."""
