"""What makes operations of process groups go on: whoever waits for one, else a thread.

An operation is a generator that yields lists of MPI's requests: it goes on when all of a list have
ended. The operations of a group run one after the other, in the order of their calls; messages
between two ranks run side by side.
"""

from __future__ import annotations

import collections
import itertools
import os
import threading
import time

import rushlight
from rushlight._set_module import set_module
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._member import line_of_main_thread
from rushlight.distributed._stores import DEFAULT_TIMEOUT, seconds_of
from rushlight.futures import _wait_for_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from typing_extensions import Self

_SPIN_SECONDS = 2e-4
_SHORTEST_PAUSE = 2e-5
_LONGEST_PAUSE = 5e-4
_SHORTEST_REST, _LONGEST_REST = 1e-4, 2e-3
_SECONDS_FOR_VERDICT = 5.0
_SECONDS_AFTER_LEAVING = 5.0


class _Processor:
    """Does another process want the processor on which this one looks and looks again?"""

    crowded_until = 0.0


def _yield():
    """Let another process run. Where one does for long, sleep instead: who wakes up runs soon, and
    who spins has had its share (4 bytes among 16 busy processes on two cores: 0.4 ms, not 4).
    """
    now = time.monotonic()
    if now < _Processor.crowded_until:
        time.sleep(_SHORTEST_PAUSE)
        return
    os.sched_yield()
    if time.monotonic() - now > 3e-4:
        _Processor.crowded_until = now + 0.05


class Work:
    """An operation under way, which `async_op=True` returns. Without arguments, one that has ended:
    a program's own group may return objects of a class derived from this one.

    Args:
        queue: the operations of a group.
        steps: the generator.
        what: name and arguments of the operation, for messages.
        site: the line that called it.
        outputs: the tensors that it writes.
        timeout: until its end.
    """

    what: Any
    site: Any
    number: int | None

    def __init__(
        self,
        queue: Any = None,
        steps: Any = None,
        what: Any = "operation",
        site: Any = "?",
        outputs: Any = (),
        timeout: timedelta | None = DEFAULT_TIMEOUT,
    ) -> None:
        self._queue, self._steps = queue, steps
        self.what, self.site, self.number = what, site, None
        self._outputs = outputs
        self._seconds = seconds_of(timeout)
        self._deadline = time.monotonic() + self._seconds
        self._requests, self._step_began = None, 0.0
        self._steps_done = 0
        self._done, self._error = queue is None, None
        self._future, self._future_lock = None, threading.Lock()
        self._asked = False
        self._source_rank = -1
        self._event: Any = None  # on a GPU: what the streams of those who wait must wait for
        self._keep: Any = None  # called at the end: holds what the GPU still works on
        self._release: Any = None  # called by who waits: lets go of it

    def describe(self) -> str:
        """The operation with its number and line, for messages."""
        number = "" if self.number is None else f" #{self.number}"
        return f"{self.what}{number} at {self.site}"

    def advance(self) -> bool:
        """Go on as far as possible: has the operation ended?"""
        test = self._queue.transport.test
        try:
            if self._requests is None:
                self._requests = next(self._steps)
                self._step_began = time.monotonic()
            while test(self._requests):
                self._requests = next(self._steps)
                self._steps_done += 1
                self._step_began = time.monotonic()
            return False
        except StopIteration:
            self.finish(None)
        except Exception as error:  # the one who waits gets it
            failure = self._queue.engine.failure
            if failure is not None and not isinstance(error, DistBackendError):
                error = DistBackendError(f"{self.describe()}: {failure}")  # that is the cause
            elif not isinstance(error, (DistBackendError, ValueError, TypeError, RuntimeError)):
                failure = DistBackendError(f"{self.describe()}: {error}")
                failure.__cause__ = error
                error = failure
            self.finish(error)
        return True

    def finish(self, error: Any) -> None:
        """The operation has ended, with this error or without."""
        self._steps = None
        self._error = error
        if self._event is not None:
            self._keep()
        self._keep = None
        if error is None:
            self._requests = ()
            self._queue.last = self._queue.engine.last_operation = self.describe()
        with self._future_lock:
            self._done = True
            future = self._future
        if future is not None:
            self._settle(future)

    def _settle(self, future):
        if self._error is None:
            future._event = self._event
            future.set_result(self._outputs)
        else:
            future.set_exception(self._error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end, and raise the error if there was one; True.

        Args:
            timeout: a timedelta after which to raise, instead of that of the group.
        """
        began = time.monotonic()
        limit = None if timeout is None or not seconds_of(timeout) else seconds_of(timeout)
        while not self._done:
            self._queue.engine.poll()
            if self._done:
                break
            now = time.monotonic()
            if limit is not None and now > began + limit:
                raise DistBackendError(
                    f"{self.describe()}: did not end within {limit:g} s, as wait was told"
                )
            self.pause(now - began)
        if self._error is not None:
            raise self._error
        if self._event is not None:
            _wait_for_event(self._event)
            self._release()
        return True

    def pause(self, waited: Any) -> None:
        """Let others run before the next look."""
        # Once the other ranks are here, bytes move only while somebody looks.
        moving = self._steps_done > 0 and time.monotonic() - self._step_began < 0.1
        if moving or waited < _SPIN_SECONDS:
            _yield()
        else:
            time.sleep(min(waited / 10, _LONGEST_PAUSE))

    def rest(self, waited: Any) -> None:
        """Let others run before the next look of the thread for which nobody waits."""
        if self._queue.transport.needs_polling:
            self.pause(waited)
        else:  # the processor is for those who compute
            time.sleep(min(max(waited / 10, _SHORTEST_REST), _LONGEST_REST))

    def check_clock(self, now: Any) -> None:
        """Ask who is missing once the time is up; fail if nobody can say."""
        engine = self._queue.engine
        for rank in self._queue.ranks if engine.left else ():
            why, when = engine.left.get(rank, (None, now))
            if now > min(when + _SECONDS_AFTER_LEAVING, self._deadline) and why is not None:
                engine.fail(f"{self.describe()} waits for rank {rank}, which has left: {why}")
                return
        if now <= self._deadline:
            return
        if self._asked:
            engine.fail(
                f"{self.describe()} timed out after {self._seconds:g} s, and "
                f"{engine.member.who_serves()} does not answer: it is stopped, or its machine is "
                "lost"
            )
        else:
            self._asked = True
            self._deadline = now + _SECONDS_FOR_VERDICT
            engine.ask(self)

    def report(self) -> Any:
        """What others are told when they ask who waits for whom."""
        return {
            "what": self.describe(),
            "group": self._queue.name,
            "number": self.number,
            "ranks": self._queue.ranks,
            "seconds": self._seconds,
            "last": self._queue.last,
            "line": None,
        }

    def is_completed(self) -> Any:
        """Has the operation ended?"""
        if not self._done:
            self._queue.engine.poll()
        return self._done and (self._event is None or self._event.query())

    def is_success(self) -> Any:
        """Has it ended well?"""
        return self._done and self._error is None

    def exception(self) -> Any:
        """The error with which it ended, or None."""
        return self._error

    def result(self) -> Any:
        """The tensors it wrote."""
        if not self._done:
            raise RuntimeError(f"{self.describe()}: no result yet, call wait()")
        return self._outputs

    def source_rank(self) -> Any:
        """From whom a message came that could come from anyone."""
        return self._source_rank

    def synchronize(self) -> None:
        """Wait for the end."""
        self.wait()

    def block_current_stream(self) -> None:
        """Let what comes next on this stream of a GPU wait for the end; on the CPU, wait."""
        self.wait()

    def get_future_result(self) -> Any:
        """A future of 0, for an operation that ends well, or of 2."""
        return self.get_future().then(lambda future: 0 if self.is_success() else 2)

    def boxed(self) -> Self:
        """This object: it needs no other form where operators take it."""
        return self

    @staticmethod
    def unbox(boxed: Work) -> Work:
        """What `boxed` gave, again."""
        return boxed

    def get_future(self) -> Any:
        """A future of the tensors it writes."""
        with self._future_lock:
            if self._future is None:
                self._future = rushlight.futures.Future()
                done = self._done
            else:
                return self._future
        if done:
            self._settle(self._future)
        return self._future


set_module("rushlight.distributed", Work)


class Queue:
    """The operations of a group, one after the other.

    Args:
        engine: what makes them go on.
        transport: what carries them.
        name: the group's.
        ranks: the members' ranks in the world.
    """

    def __init__(self, engine: Any, transport: Any, name: str, ranks: Any) -> None:
        self.engine, self.transport = engine, transport
        self.name, self.ranks = name, ranks
        self.operations = collections.deque()
        self.messages = []  # those of send and receive
        self.last = None
        self.count = 0
        self.ended: str | None = None  # why there are no more operations

    def submit(self, work: Any, is_message: bool = False) -> None:
        """Begin an operation, or line it up behind those before it."""
        self.engine.check(work)
        if self.ended is not None:
            raise DistBackendError(f"{work.describe()}: {self.ended}")
        if is_message:
            self.messages.append(work)
        else:
            self.count += 1
            work.number = self.count
            self.operations.append(work)
        self.engine.queues[self] = None
        self.engine.poll()

    def poll(self) -> Any:
        """Go on; True if nothing is left."""
        while self.operations:
            if not self.operations[0].advance():
                break
            self.operations.popleft()
        if self.messages:
            for work in list(self.messages):
                if work.advance():
                    self.messages.remove(work)
        return not self.operations and not self.messages

    def under_way(self) -> Any:
        """All that has not ended."""
        return [*self.operations, *self.messages]

    def next_to_end(self) -> Any:
        """What does not wait for others of this process: thousands may be behind it."""
        return [*itertools.islice(self.operations, 1), *self.messages]


class Engine:
    """All queues of this process."""

    def __init__(self, member: Any = None) -> None:
        self.queues = {}
        self.failure = None
        self.last_operation = None
        self.left = {}  # rank -> (why, when)
        self.member = member
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread = None
        self.aborts = []  # what else ends with the first failure
        self._abandoned = []  # buffers that MPI may still write to
        if member is not None:
            member.on_failure = lambda: self.fail(member.failure)
            member.on_left = self._on_left
            member.report = self._report

    def check(self, work: Any) -> None:
        """Raise if the world has failed before an operation begins."""
        if self.failure is not None:
            raise DistBackendError(f"{work.describe()}: {self.failure}")

    def poll(self) -> None:
        """Let all operations go on, unless another thread does so already."""
        if not self._lock.acquire(blocking=False):
            os.sched_yield()
            return
        try:
            for queue in list(self.queues):
                if queue.poll():
                    self.queues.pop(queue, None)
                    if queue.operations or queue.messages:  # new ones from a callback
                        self.queues[queue] = None
                else:
                    now = time.monotonic()
                    for work in queue.next_to_end():
                        work.check_clock(now)
                        if self.failure is not None:
                            break
        finally:
            self._lock.release()
        if self.failure is not None:
            self._fail_all()

    def exclusively(self) -> Any:
        """A context in which no other thread calls MPI."""
        return self._lock

    def ensure_progress(self) -> None:
        """Let a thread carry on what nobody waits for."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="rushlight progress", daemon=True
            )
            self._thread.start()
        self._wake.set()

    def _run(self):
        while True:
            self._wake.wait()
            self._wake.clear()
            began = time.monotonic()
            while self.queues:
                self.poll()
                works = [work for queue in list(self.queues) for work in queue.under_way()[:1]]
                if works:
                    works[0].rest(time.monotonic() - max(began, works[0]._step_began))

    def ask(self, work: Any) -> None:
        """Ask the server who lets this operation wait."""
        if self.member is None:
            self.fail(f"{work.describe()} timed out after {work._seconds:g} s")
            return
        try:
            self.member.stuck(work.report())
        except OSError:
            self.fail(f"{work.describe()}: {self.member.who_serves()} died")

    def _report(self):
        for queue in list(self.queues):
            for work in queue.under_way():
                return work.report()
        return {
            "what": None,
            "group": None,
            "number": None,
            "last": self.last_operation,
            "line": line_of_main_thread(),
        }

    def _on_left(self):
        for rank, why in self.member.left.items():
            self.left.setdefault(rank, (why, time.monotonic()))

    def fail(self, text: Any) -> None:
        """End all operations, and refuse new ones."""
        if self.failure is None:
            self.failure = text
            for abort in list(self.aborts):
                abort()
        self._wake.set()

    def _fail_all(self):
        if not self._lock.acquire(blocking=False):
            return
        try:
            for queue in list(self.queues):
                self._end(queue, self.failure)
            self.queues.clear()
        finally:
            self._lock.release()

    def _end(self, queue, why):
        """End the operations of a queue with an error."""
        works = queue.under_way()
        queue.operations.clear()
        queue.messages = []
        for work in works:
            self._abandoned.append((work._steps, work._requests, work._outputs))
            text = why if work.what in why else f"{work.describe()}: {why}"
            work.finish(DistBackendError(text))

    def abort(self, queue: Any, why: str) -> None:
        """End the operations of a queue, and refuse new ones there."""
        with self._lock:
            queue.ended = why
            self._end(queue, why)
            self.queues.pop(queue, None)
