"""What the iterators of other libraries' loaders derive from."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator
from typing import Any

import rushlight
from rushlight import _spans
from rushlight._ignored import warn_program as _warn_program
from rushlight.utils.data import pipe_settings
from rushlight.utils.data.iterator import EpochIterator


class BaseIterator(metaclass=ABCMeta):  # noqa: B024 - for register
    """The state of an epoch, by the names that torch's iterators have for it: a subclass defines
    `_next_data`, and asks `_next_index` for keys. rushlight's own iterators count as such.
    """

    def __init__(self, loader: Any) -> None:
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._collate_fn = loader._auto_collation, loader.collate_fn
        self._index_sampler, self._drop_last = loader._index_sampler, loader.drop_last
        self._num_workers, self._timeout = loader.num_workers, loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._world_size, self._rank = pipe_settings.place_in_world()
        self._pin_memory = loader._pins_memory()
        self._pin_memory_device = "cuda" if self._pin_memory else None
        self._shared_seed = None
        self._begin(loader)
        seed = rushlight.empty((), dtype=rushlight.int64).random_(generator=loader.generator)
        self._base_seed = int(seed)

    def _begin(self, loader):
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        if pipe_settings.is_stream_of_steps(self._dataset):
            self._shared_seed = pipe_settings.draw_shared_seed(loader.generator)
            pipe_settings.seed_steps(self._dataset, self._shared_seed)

    def _reset(self, loader, first_iter=False):
        """Start another epoch; subclasses may tell the first one apart."""
        self._begin(loader)

    def _next_index(self):
        return next(self._sampler_iter)

    def _next_data(self):
        raise NotImplementedError(f"{type(self).__name__} does not define _next_data")

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        span = _spans.begin(f"enumerate(DataLoader)#{type(self).__name__}.__next__")
        try:
            data = self._next_data()
        finally:
            _spans.end(span)
        self._num_yielded += 1
        promised = self._IterableDataset_len_called
        if promised is not None and self._num_yielded > promised:
            _warn_program(
                f"DataLoader: the length of the IterableDataset {self._dataset} is {promised}, but"
                f" {self._num_yielded} batches or samples have been read"
            )
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


BaseIterator.register(EpochIterator)
