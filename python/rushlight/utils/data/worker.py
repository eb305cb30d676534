"""What runs in a worker: reading batches on request and reporting errors in full."""

from __future__ import annotations

import collections
import copy
import os
import pickle
import queue
import random
import sys
import threading
import traceback
from typing import Any

import rushlight
from rushlight.utils.data import pipe_settings, random_state, transfer
from rushlight.utils.data.reader import BatchReader, Exhausted

# Every so many seconds an idle worker process looks whether its parent is still there.
_PARENT_CHECK_SECONDS = 5.0

# From loader to worker: begin an epoch (at a position, or None), or read the batch of some keys.
Begin: type[Any] = collections.namedtuple("Begin", ["epoch", "resume", "shared_seed"])
Read: type[Any] = collections.namedtuple("Read", ["epoch", "keys"])
# From worker to loader: payload is a batch, a Failure, End if an iterable dataset is exhausted, or
# Ready after Begin.
Reply: type[Any] = collections.namedtuple("Reply", ["epoch", "payload", "changes"])
End: type[Any] = collections.namedtuple("End", [])
Ready: type[Any] = collections.namedtuple("Ready", [])

# What a worker is and does; the same for all workers of a loader. `place` is that of the loader's
# process among those that train together, where the dataset is made of steps, else None.
Job: type[Any] = collections.namedtuple(
    "Job", ["source", "count", "base_seed", "init_fn", "in_thread", "resumable", "place"]
)

_current = threading.local()


class WorkerInfo:
    """What `get_worker_info` tells a dataset.

    Attributes:
        id: number of this worker.
        num_workers: how many there are.
        seed: seed of this worker's generators.
        dataset: this worker's dataset.
        rng: the generators of a worker thread, which are seeded as the global ones of a worker
            process: `random_generator`, `torch_generator` and `numpy_generator`. None in a process.
        worker_method: "multiprocessing" or "thread".
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any
    worker_method: str

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


def get_worker_info() -> WorkerInfo | None:
    """Return the `WorkerInfo` of the calling worker, or None in the main process and thread."""
    info = getattr(_current, "info", None)
    if info is None:  # workers of other libraries write it where torch has it
        module = sys.modules.get("rushlight.utils.data._utils.worker")
        info = vars(module).get("_worker_info") if module is not None else None
    return info


class _Verbatim(str):
    """Text that `KeyError`, which shows the repr of its argument, leaves readable."""

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception on its way from a worker to the caller."""

    def __init__(self, error: Any, where: str) -> None:
        kind = type(error)
        trace = "".join(traceback.format_exception(error))
        self._text = f"Caught {kind.__name__} {where}.\nOriginal {trace}"
        self._kind = kind
        try:
            pickle.dumps(kind)
        except (pickle.PicklingError, AttributeError):
            # a class that the main process cannot find by name
            self._kind = RuntimeError

    def reraise(self) -> None:
        """Raise the same kind of exception, with the worker's traceback in its text."""
        if issubclass(self._kind, KeyError):
            raise self._kind(_Verbatim(self._text))
        try:
            error = self._kind(self._text)
        except TypeError:
            error = RuntimeError(self._text)  # the class wants other arguments
        raise error


class _Worker:
    """Carries out the messages of one loader in this process or thread."""

    def __init__(self, index: int, job: Any) -> None:
        self._index = index
        self._job = job
        self._where = f"in DataLoader worker {'thread' if job.in_thread else 'process'} {index}"
        self._rng = random_state.RNG(job.base_seed, index) if job.in_thread else None
        self._reader = None
        self._epoch = None
        self._ended = False
        self._set_up_failure = self._failure_of(self._set_up)
        self._failure = None

    def _failure_of(self, step):
        try:
            step()
        except Exception as error:  # whatever it is, the main process is to raise it
            return Failure(error, self._where)
        return None

    def _set_up(self):
        if self._job.place is not None:
            self._take_part()
        job = self._job
        _current.info = WorkerInfo(
            id=self._index, num_workers=job.count, seed=job.base_seed + self._index,
            dataset=job.source.dataset, rng=self._rng,
            worker_method="thread" if job.in_thread else "multiprocessing",
        )  # fmt: skip
        if job.in_thread:
            rushlight._C._set_thread_generator(self._rng.torch_generator)
        else:
            seed_everything(job.base_seed, self._index)
            rushlight.set_num_threads(1)
        if job.init_fn is not None:
            job.init_fn(self._index)

    def _take_part(self):
        """Read a part of a dataset of steps: the processes share first, then their workers."""
        if self._job.in_thread:  # each thread reads a part of its own
            source = self._job.source
            self._job = self._job._replace(
                source=source._replace(dataset=copy.deepcopy(source.dataset))
            )
        world, rank = self._job.place
        pipe_settings.share_out(
            self._job.source.dataset, self._job.count * world, self._index * world + rank
        )

    def _begin(self, resume, shared_seed):
        if shared_seed is not None:
            pipe_settings.seed_steps(self._job.source.dataset, shared_seed)
        self._reader = BatchReader(
            self._job.source, self._job.resumable, owns_random=True, rng=self._rng, resume=resume
        )

    def carry_out(self, message: Any) -> Any:
        """Return the `Reply` to `message`, or None if it needs none."""
        if isinstance(message, Begin):
            self._epoch, self._ended = message.epoch, False
            self._reader = None
            self._failure = self._set_up_failure or self._failure_of(
                lambda: self._begin(message.resume, message.shared_seed)
            )
            if not self._job.resumable:
                return None
            return Reply(self._epoch, Ready(), self._changes())
        if self._ended or message.epoch != self._epoch:
            return None
        return Reply(self._epoch, *self._read(message.keys))

    def _changes(self):
        return {} if self._reader is None else self._reader.changes()

    def _read(self, keys):
        if self._failure is not None:
            return self._failure, {}
        try:
            payload = self._reader.read(keys)
        except Exhausted:
            self._ended = True
            payload = End()
        except Exception as error:  # whatever it is, the main process is to raise it
            payload = Failure(error, self._where)
        return payload, self._reader.changes()

    def pack(self, reply: Any) -> Any:
        """Return `reply` as a parcel; one that cannot be sent becomes the failure to send it."""
        try:
            return transfer.pack(reply)
        except Exception as error:  # the pickling of user objects can raise anything
            return transfer.pack(reply._replace(payload=Failure(error, self._where)))


def seed_everything(base_seed: Any, index: Any) -> None:
    """Seed Python, rushlight and NumPy as torch seeds its worker number `index`."""
    random.seed(base_seed + index)
    rushlight.manual_seed(base_seed + index)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(random_state.numpy_seed(base_seed, index))


def process_main(connection: Any, index: Any, job: Any, parent: Any) -> None:
    """Serve one loader over `connection` until told to stop or the parent is gone."""
    transfer.become_worker()
    outgoing = queue.SimpleQueue()
    # Sending waits until the main process reads; meanwhile this worker can prepare more.
    threading.Thread(target=_send_all, args=(outgoing, connection), daemon=True).start()
    try:
        worker = _Worker(index, job)
        for message in _messages(connection, parent):
            reply = worker.carry_out(message)
            if reply is not None:
                outgoing.put(worker.pack(reply))
    except KeyboardInterrupt:
        pass  # the main process gets the same signal and reports it


def _messages(connection, parent):
    """Yield messages in order, but see a request to stop before work that is still waiting."""
    receiver = transfer.Receiver(connection)
    waiting = collections.deque()
    while True:
        while connection.poll(0 if waiting else _PARENT_CHECK_SECONDS):
            try:
                message = receiver.receive()
            except EOFError:
                return
            if message is None:
                return
            waiting.append(message)
        if waiting:
            yield waiting.popleft()
        elif os.getppid() != parent:
            return


def _send_all(outgoing, connection):
    while True:
        try:
            transfer.send(connection, outgoing.get())
        except BrokenPipeError:
            return  # the main process has closed its end


def thread_main(incoming: Any, outgoing: Any, stopping: Any, index: int, job: Any) -> None:
    """Serve one loader over queues; `None` on the way out says that the thread has ended."""
    try:
        worker = _Worker(index, job)
        while (message := incoming.get()) is not None and not stopping.is_set():
            reply = worker.carry_out(message)
            if reply is not None:
                outgoing.put((index, reply))
    finally:
        rushlight._C._set_thread_generator(None)
        outgoing.put((index, None))
