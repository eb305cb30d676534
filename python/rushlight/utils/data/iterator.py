"""Iterators over the batches of one epoch: without workers, and with."""

from __future__ import annotations

import collections
import weakref
from collections.abc import Iterator
from typing import Any

from rushlight import Tensor, _spans
from rushlight._ignored import warn_program as _warn_program
from rushlight.utils.data import pipe_settings
from rushlight.utils.data.pin import pin_memory
from rushlight.utils.data.pool import ProcessPool, ThreadPool
from rushlight.utils.data.reader import BatchReader, Exhausted, Source
from rushlight.utils.data.worker import Begin, End, Failure, Job, Read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.utils.data.dataloader import DataLoader


def _complete(loader):
    """The loader, or one made of the attributes that another library's shares with torch's."""
    from rushlight.utils.data.dataloader import DataLoader, _LoaderByAttributes

    return loader if isinstance(loader, DataLoader) else _LoaderByAttributes(loader)


def _look_at(batch):
    """Raise if a tensor of the batch holds NaN: the trap cannot see what workers compute."""
    if isinstance(batch, Tensor):
        _spans.check_values("DataLoader: the batch", batch)
    elif isinstance(batch, dict):
        for part in batch.values():
            _look_at(part)
    elif isinstance(batch, (list, tuple)):
        for part in batch:
            _look_at(part)


class EpochIterator:
    """What both kinds of iterator share: subclasses define `_next_batch`."""

    def __init__(self, loader: Any) -> None:
        self._source = Source(
            loader.dataset, loader.collate_fn, loader._auto_collation, loader.drop_last,
            loader._dataset_kind == loader._streams,
        )  # fmt: skip
        self._sampler = loader._index_sampler
        self._pins = loader._pins_memory()
        self._shared_seed = self._draw_shared_seed(loader)
        self._progress = loader._start_epoch()
        self._count_from(loader)

    @staticmethod
    def _draw_shared_seed(loader):
        """The seed of an epoch for the steps of a dataset that is made of some; else None."""
        if not pipe_settings.is_stream_of_steps(loader.dataset):
            return None
        return pipe_settings.draw_shared_seed(loader.generator)

    def _count_from(self, loader):
        self._num_yielded = 0
        self._promised = loader._IterableDataset_len_called

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = self._next_batch() if not _spans.active() else self._next_batch_in_span()
        if _spans.trapping():
            _look_at(batch)
        self._num_yielded += 1
        if self._promised is not None and self._num_yielded > self._promised:
            self._warn_of_length()
        return pin_memory(batch) if self._pins else batch

    def _next_batch_in_span(self):
        """The time in which the program waits for data, as a profile shows it."""
        span = _spans.begin(f"enumerate(DataLoader)#{self._shown_as}.__next__")
        try:
            return self._next_batch()
        finally:
            _spans.end(span)

    def _warn_of_length(self):
        _warn_program(
            f"DataLoader: the length of the IterableDataset {self._source.dataset} is"
            f" {self._promised}, but {self._num_yielded} batches or samples have been read; with"
            " workers, each must read a part of its own",
        )

    def __len__(self) -> int:
        return len(self._sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def _account(self, position, keys):
        position["samples"] += len(keys) if self._source.batched else 1


class SerialIterator(EpochIterator):
    """Reads in the calling thread, one batch at a time."""

    _shown_as = "_SingleProcessDataLoaderIter"

    def __init__(self, loader: DataLoader[Any]) -> None:
        loader = _complete(loader)
        super().__init__(loader)
        progress = self._progress
        if pipe_settings.is_pipe(loader.dataset):
            pipe_settings.share_out(loader.dataset, *pipe_settings.place_in_world())
        if self._shared_seed is not None:
            pipe_settings.seed_steps(loader.dataset, self._shared_seed)
        self._reader = BatchReader(
            self._source,
            loader._resumable,
            resume=progress.workers[0] if progress.resuming else None,
        )

    def _next_batch(self):
        progress = self._progress
        position = progress.workers[0]
        try:
            keys = next(progress.keys)
        except StopIteration:
            progress.finish()
            raise
        try:
            batch = self._reader.read(keys)
        except Exhausted:
            position.update(self._reader.changes())
            progress.finish()
            raise StopIteration from None
        self._account(position, keys)
        position.update(self._reader.changes())
        return batch


class ParallelIterator(EpochIterator):
    """Keeps workers busy with the next batches and yields them in order, or as they come.

    Each worker owes the batches of its pending keys, in that order; in turn, one from each worker,
    they give the order of the sampler. What a worker sends for an earlier, abandoned epoch is
    recognised by its number and dropped.
    """

    _shown_as = "_MultiProcessingDataLoaderIter"

    def __init__(self, loader: DataLoader[Any]) -> None:
        loader = _complete(loader)
        super().__init__(loader)
        self._draw_shared_seed(loader)  # as torch, which draws one more for new workers
        self._timeout = loader.timeout
        self._in_order = loader.in_order
        self._prefetch = loader.prefetch_factor
        in_thread = loader.worker_type == "thread"
        self._resumable = loader._resumable
        job = Job(
            self._source, loader.num_workers, self._progress.base_seed, loader.worker_init_fn,
            in_thread, loader._resumable,
            pipe_settings.place_in_world() if pipe_settings.is_pipe(loader.dataset) else None,
        )  # fmt: skip
        self._pool = ThreadPool(job) if in_thread else ProcessPool(loader._context(), job)
        self._finalizer = weakref.finalize(self, self._pool.close)
        self._epoch = 0
        self._begin()

    def _reset(self, loader):
        """Start another epoch with the same workers."""
        loader = _complete(loader)
        self._shared_seed = self._draw_shared_seed(loader)
        self._progress = loader._start_epoch(self._progress)
        self._count_from(loader)
        self._begin()

    def close(self) -> None:
        """Stop the workers."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    _shutdown_workers = close  # as libraries know it

    def _begin(self):
        progress = self._progress
        self._epoch += 1
        self._replies = [collections.deque() for _ in progress.workers]
        for worker, position in enumerate(progress.workers):
            resume = None
            if progress.resuming:
                resume = {key: value for key, value in position.items() if key != "pending"}
            self._send(worker, Begin(self._epoch, resume, self._shared_seed))
            for keys in position["pending"]:
                self._send(worker, Read(self._epoch, keys))
        if not any(position["pending"] for position in progress.workers):
            for _ in range(self._prefetch):
                for worker in range(len(progress.workers)):
                    self._give_work(worker)
        if self._resumable:
            self._await_workers()

    def _await_workers(self):
        """Learn where the workers are: what an epoch that was broken off had them read counts."""
        for position, replies in zip(self._progress.workers, self._replies, strict=True):
            while not replies:
                self._receive()
            position.update(replies.popleft().changes)

    def _send(self, worker, message):
        try:
            self._pool.send(worker, message)
        except RuntimeError:  # the worker has died: the others are of no use either
            self.close()
            raise

    def _give_work(self, worker):
        position = self._progress.workers[worker]
        try:
            keys = next(self._progress.keys)
        except StopIteration:
            return
        position["pending"].append(keys)
        self._send(worker, Read(self._epoch, keys))

    def _next_batch(self):
        while (worker := self._next_worker()) is not None:
            payload = self._take(worker)
            if isinstance(payload, Failure):
                payload.reraise()
            if not isinstance(payload, End):
                return payload
        self._progress.finish()
        raise StopIteration

    def _next_worker(self):
        """Wait for the worker whose batch comes next and return its number; None at the end."""
        workers = self._progress.workers
        count = len(workers)
        turns = [(self._progress.turn + step) % count for step in range(count)]
        owing = [worker for worker in turns if workers[worker]["pending"]]
        if not owing:
            return None
        candidates = owing[:1] if self._in_order else owing
        while True:
            for worker in candidates:
                if self._replies[worker]:
                    return worker
            self._receive()

    def _receive(self):
        try:
            received = self._pool.receive(self._timeout or None)
        except RuntimeError:  # the worker has died: the others are of no use either
            self.close()
            raise
        if received is None:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
        worker, reply = received
        if reply.epoch == self._epoch:
            self._replies[worker].append(reply)

    def _take(self, worker):
        """Return what `worker` has sent, note how far it has come, and give it more to do."""
        progress = self._progress
        position = progress.workers[worker]
        reply = self._replies[worker].popleft()
        position.update(reply.changes)
        progress.turn = (worker + 1) % len(progress.workers)
        if isinstance(reply.payload, End):
            position["pending"].clear()
        else:
            self._account(position, position["pending"].pop(0))
            self._give_work(worker)
        return reply.payload
