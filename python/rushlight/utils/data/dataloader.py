"""The `DataLoader`: batches of a dataset, read ahead by worker processes or threads."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import rushlight
from rushlight import Generator
from rushlight._ignored import warn_of, warn_program as _warn_program
from rushlight.utils.data.base_iterator import BaseIterator
from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataset import IterableDataset
from rushlight.utils.data.iterator import ParallelIterator, SerialIterator
from rushlight.utils.data.pipe_settings import is_stream_of_steps, share_out
from rushlight.utils.data.progress import Progress
from rushlight.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from rushlight.utils.data.worker import get_worker_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rushlight.utils.data.dataset import Dataset

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
_PREFETCH = 2

# As libraries know them.
_BaseDataLoaderIter, _SingleProcessDataLoaderIter = BaseIterator, SerialIterator
_MultiProcessingDataLoaderIter = ParallelIterator
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list], Any]


def _sharding_worker_init_fn(worker_init_fn, world_size, rank_id, worker_id):
    """Let a worker's steps read its part, among all workers of all processes; then the program's
    own function."""
    info = get_worker_info()
    share_out(info.dataset, info.num_workers * world_size, worker_id * world_size + rank_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _DatasetKind:
    """How a loader reads its dataset: by keys, or as a stream."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: str, dataset: Any, auto_collation: bool, collate_fn: type[Any], drop_last: bool
    ) -> Any:
        """Return what reads batches of a dataset of this kind, in its method `fetch`."""
        from rushlight.utils.data._utils import fetch

        is_map = kind == _DatasetKind.Map
        fetcher = fetch._MapDatasetFetcher if is_map else fetch._IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[None]):
    """The sampler of iterable datasets: they take no keys, only the number of samples counts."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield None


_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches.

    Args:
        dataset: a map-style dataset (`__getitem__`, `__len__`) or an `IterableDataset`.
        batch_size: samples per batch; None passes samples through one by one.
        shuffle: visit in a new random order each epoch.
        sampler: iterable of keys, in place of `shuffle`.
        batch_sampler: iterable of lists of keys, in place of all of the above and `drop_last`.
        num_workers: how many workers read ahead; 0 reads in the calling thread.
        collate_fn: makes a batch of a list of samples, by default `default_collate`.
        pin_memory: return tensors in page-locked memory, if there is a GPU.
        drop_last: leave out the last batch if it is short.
        timeout: seconds to wait for a batch of a worker; 0 waits for ever.
        worker_init_fn: called in each worker with its number, after seeding.
        multiprocessing_context: start method ("fork", "spawn", "forkserver") or context.
        generator: source of the shuffle and of the workers' seeds.
        prefetch_factor: batches that each worker reads ahead, by default 2.
        persistent_workers: keep the workers from epoch to epoch.
        pin_memory_device: has no effect, with a warning: the current GPU is used.
        in_order: yield batches in the sampler's order; False yields them as they are ready.
        worker_type: "process", or "thread" for workers that start at once and share the dataset
            with the caller. Each has a generator of its own in place of rushlight's global one;
            those of `random` and NumPy are shared by all threads, and `get_worker_info().rng` has
            one of each for this worker.

    `StatefulDataLoader` is one whose position can be saved and continued from.

    Example:
        >>> for images, labels in DataLoader(digits, batch_size=64, shuffle=True):
        ...     train_on(images, labels)
    """

    _is_complete = False
    worker_type: str = "process"  # of a subclass with an __init__ of its own, too
    _streams = _DatasetKind.Iterable
    _resumable = False  # whether iterators note all that is needed to continue from any batch

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[..., Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[..., Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_type: str = "process",
    ) -> None:
        self.dataset: Dataset[_T_co] = dataset
        self.generator = generator
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        if pin_memory_device:
            warn_of("DataLoader", "the current GPU is used", pin_memory_device=pin_memory_device)
        self.worker_init_fn = worker_init_fn
        self.in_order = in_order
        self._set_workers(num_workers, worker_type, timeout, prefetch_factor, persistent_workers)
        self.multiprocessing_context = multiprocessing_context
        self._set_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._iterator = None
        self._IterableDataset_len_called = None
        self._is_complete = True

    def _set_workers(self, num_workers, worker_type, timeout, prefetch_factor, persistent_workers):
        if num_workers < 0:
            raise ValueError(f"DataLoader: num_workers should be non-negative, got {num_workers}")
        if timeout < 0:
            raise ValueError(f"DataLoader: timeout should be non-negative, got {timeout}")
        if worker_type not in ("process", "thread"):
            raise ValueError(
                f"DataLoader: worker_type must be 'process' or 'thread', got {worker_type!r}"
            )
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("DataLoader: prefetch_factor needs num_workers > 0")
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError(
                f"DataLoader: prefetch_factor must not be negative, got {prefetch_factor}"
            )
        if persistent_workers and num_workers == 0:
            raise ValueError("DataLoader: persistent_workers needs num_workers > 0")
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = _PREFETCH
        if num_workers > 0 and sys.platform == "emscripten":
            _warn_program(
                f"DataLoader: num_workers={num_workers}, but this system has neither processes nor"
                " threads: the caller reads the batches itself",
            )
            num_workers = timeout = 0
        self.num_workers: Any = num_workers
        self.worker_type = worker_type
        self.timeout: Any = timeout
        self.prefetch_factor: Any = prefetch_factor
        self.persistent_workers: Any = persistent_workers
        self.check_worker_number_rationality()

    def _set_sampling(self, batch_size, shuffle, sampler, batch_sampler, drop_last):
        self._dataset_kind = _DatasetKind.Map
        if isinstance(self.dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            if shuffle is not None and is_stream_of_steps(self.dataset):
                from rushlight.utils.data.graph_settings import apply_shuffle_settings

                self.dataset = apply_shuffle_settings(self.dataset, shuffle)
                shuffle = None
            self._refuse_keys(shuffle, sampler, batch_sampler)
            sampler = _InfiniteConstantSampler()
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler and shuffle are mutually exclusive")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader: batch_sampler is mutually exclusive with batch_size, shuffle,"
                    " sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("DataLoader: drop_last needs a batch_size")
        if sampler is None and shuffle:
            sampler = RandomSampler(self.dataset, generator=self.generator)
        elif sampler is None:
            sampler = SequentialSampler(self.dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size: Any = batch_size
        self.drop_last: Any = drop_last
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler

    @staticmethod
    def _refuse_keys(shuffle, sampler, batch_sampler):
        given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got"
                    f" {name}={value}"
                )

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def multiprocessing_context(self) -> Any:
        """The start method or context given for worker processes, or None for Python's default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            import multiprocessing
            from multiprocessing.context import BaseContext

            if self.num_workers == 0 or self.worker_type == "thread":
                raise ValueError(
                    "DataLoader: multiprocessing_context needs num_workers > 0 and processes"
                )
            if isinstance(context, str):
                if context not in multiprocessing.get_all_start_methods():
                    raise ValueError(
                        "DataLoader: multiprocessing_context must be one of"
                        f" {multiprocessing.get_all_start_methods()}, got {context!r}"
                    )
                context = multiprocessing.get_context(context)
            elif not isinstance(context, BaseContext):
                raise TypeError(
                    "DataLoader: multiprocessing_context must be a start method or a"
                    f" multiprocessing context, got {type(context).__name__}"
                )
        self._multiprocessing_context = context

    def _context(self):
        if self._multiprocessing_context is not None:
            return self._multiprocessing_context
        import multiprocessing

        return multiprocessing.get_context()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_complete and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None or self._iterator.closed:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self):
        if self.num_workers:
            return ParallelIterator(self)
        if self.timeout:
            raise AssertionError("DataLoader: timeout needs num_workers > 0")
        return SerialIterator(self)

    def _start_epoch(self, previous=None):
        """The `Progress` of a new epoch, given that of the last one of the same workers."""
        return Progress(self, previous=previous)

    def __getstate__(self) -> Any:
        # Workers cannot be copied; a copy starts its own.
        return {**self.__dict__, "_iterator": None}

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return (math.floor if self.drop_last else math.ceil)(length / self.batch_size)

    def _pins_memory(self):
        if not self.pin_memory:
            return False
        if rushlight.cuda.is_available():
            return True
        _warn_program(
            "DataLoader: pin_memory=True has no effect, for no accelerator is available",
        )
        return False

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more worker processes than processors to run them."""
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        available = available or os.cpu_count()
        if self.worker_type == "process" and available and self.num_workers > available:
            _warn_program(
                f"This DataLoader will create {self.num_workers} worker processes, more than the "
                f"{available} processors available to this program, which may slow loading down",
            )


class _LoaderByAttributes(DataLoader[Any]):
    """What torch's iterators read of a loader, of an object that has these attributes: libraries
    with loaders of their own (fastai) give such objects to the iterators.

    Args:
        other: has dataset, collate_fn, drop_last, generator, num_workers, timeout, pin_memory,
            worker_init_fn, prefetch_factor, multiprocessing_context, _auto_collation,
            _index_sampler, _dataset_kind and _IterableDataset_len_called.
    """

    def __init__(self, other: Any) -> None:
        self.dataset, self.collate_fn = other.dataset, other.collate_fn
        self.generator, self.pin_memory = other.generator, other.pin_memory
        self.worker_init_fn = other.worker_init_fn
        self.in_order = getattr(other, "in_order", True)
        self._set_workers(
            other.num_workers, "process", other.timeout,
            other.prefetch_factor if other.num_workers else None,
            other.num_workers > 0 and other.persistent_workers,
        )  # fmt: skip
        self._multiprocessing_context = other.multiprocessing_context
        keys = other._index_sampler
        self.batch_size, self.drop_last = None, other.drop_last
        self.sampler, self.batch_sampler = (None, keys) if other._auto_collation else (keys, None)
        self._dataset_kind = other._dataset_kind
        self._IterableDataset_len_called = other._IterableDataset_len_called
