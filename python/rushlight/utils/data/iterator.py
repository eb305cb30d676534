"""Iterators over the batches of one epoch: without workers, and with."""

import collections
import weakref

from rushlight.utils.data.pin import pin_memory
from rushlight.utils.data.pool import ProcessPool, ThreadPool
from rushlight.utils.data.reader import BatchReader, Exhausted, Source
from rushlight.utils.data.worker import Begin, End, Failure, Job, Read


class EpochIterator:
    """What both kinds of iterator share: subclasses define `_next_batch`."""

    def __init__(self, loader, progress):
        self._progress = progress
        self._source = Source(
            loader.dataset, loader.collate_fn, loader._auto_collation, loader.drop_last
        )
        self._sampler = loader._index_sampler
        self._pins = loader._pins_memory()

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._next_batch()
        return pin_memory(batch) if self._pins else batch

    def __len__(self):
        return len(self._sampler)

    def _account(self, position, keys):
        position["samples"] += len(keys) if self._source.batched else 1


class SerialIterator(EpochIterator):
    """Reads in the calling thread, one batch at a time."""

    def __init__(self, loader, progress):
        super().__init__(loader, progress)
        resume = progress.workers[0] if progress.resuming else None
        self._reader = BatchReader(self._source, owns_random=False, resume=resume)

    def _next_batch(self):
        progress = self._progress
        if progress.finished:
            raise StopIteration
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

    def __init__(self, loader, progress):
        super().__init__(loader, progress)
        self._timeout = loader.timeout
        self._in_order = loader.in_order
        self._prefetch = loader.prefetch_factor
        in_thread = loader.worker_type == "thread"
        job = Job(
            self._source, loader.num_workers, progress.base_seed, loader.worker_init_fn, in_thread
        )
        self._pool = ThreadPool(job) if in_thread else ProcessPool(loader._context(), job)
        self._finalizer = weakref.finalize(self, self._pool.close)
        self._epoch = 0
        self.begin(progress)

    def close(self):
        """Stop the workers."""
        self._finalizer()

    @property
    def closed(self):
        return not self._finalizer.alive

    def begin(self, progress):
        """Start an epoch, which may be the rest of a saved one."""
        self._progress = progress
        self._epoch += 1
        self._replies = [collections.deque() for _ in progress.workers]
        for worker, position in enumerate(progress.workers):
            resume = None
            if progress.resuming:
                resume = {key: value for key, value in position.items() if key != "pending"}
            self._send(worker, Begin(self._epoch, resume))
            for keys in position["pending"]:
                self._send(worker, Read(self._epoch, keys))
        if not any(position["pending"] for position in progress.workers):
            for _ in range(self._prefetch):
                for worker in range(len(progress.workers)):
                    self._give_work(worker)

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
