"""Values that are set later, from another thread."""

from __future__ import annotations

import concurrent.futures
import threading
import traceback
from typing import Generic, TypeVar

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from rushlight.types import _device


def _wait_for_event(event: Any) -> None:
    """Let what the current stream of a GPU is given from now on wait for an event."""
    from rushlight import cuda

    cuda.current_stream(event.device_index).wait_event(event)


_T = TypeVar("_T")
_S = TypeVar("_S")


class Future(Generic[_T]):
    """A value, or an exception, that some thread will set.

    Args:
        devices: accepted; who waits for values on a GPU waits for the work that writes them.
    """

    _failed = False  # whether the callback that would have given the value raised an exception

    def __init__(self, *, devices: list[int | str | _device] | None = None) -> None:
        self._future = concurrent.futures.Future()
        self._event: Any = None  # the end of the work of a GPU that writes the value

    def done(self) -> bool:
        """Is the value set?"""
        return self._future.done()

    def wait(self) -> _T:
        """Wait for the value and return it, or raise the exception that was set."""
        result = self._future.result()
        if self._event is not None:
            _wait_for_event(self._event)
        return result

    def value(self) -> _T:
        """The value, which must be set."""
        if not self.done():
            raise RuntimeError("Future is not completed yet: call wait()")
        return self.wait()

    def set_result(self, result: _T) -> None:
        """Set the value; once."""
        self._complete(self._future.set_result, result)

    def set_exception(self, result: Any) -> None:
        """Set an exception, which wait() raises."""
        assert isinstance(result, Exception), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._complete(self._future.set_exception, result)

    def _complete(self, set_it, what):
        try:
            set_it(what)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future can only be marked completed once") from None

    def then(self, callback: Callable[[Future[_T]], _S]) -> Future[_S]:
        """A future of callback(self), called when the value is set.

        Where the callback raises an exception, the future's wait() raises a RuntimeError of it.
        """
        following = Future()

        def run(_):
            try:
                following._set_after(self, callback(self))
            except Exception as error:
                following._failed = True
                following.set_exception(_error_of_callback(error))

        self._future.add_done_callback(run)
        return following

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("Can not pickle torch.futures.Future: pickle its value")

    def _set_after(self, before, result):
        """Set what a callback has made of the value of `before`, by work of the current stream."""
        if before._event is not None:
            from rushlight import cuda

            self._event = cuda.current_stream(before._event.device_index).record_event()
        self.set_result(result)

    def add_done_callback(self, callback: Callable[[Future[_T]], Any]) -> None:
        """Call callback(self) when the value is set."""
        self._future.add_done_callback(lambda _: callback(self))


def _error_of_callback(error):
    """A RuntimeError of what a callback has raised, as torch's are, with the lines it came by."""
    lines = "".join(
        f"\n  {frame.filename}({frame.lineno}): {frame.name}"
        for frame in reversed(traceback.extract_tb(error.__traceback__)[1:])
    )
    failure = RuntimeError(
        "Got the following error when running the callback: "
        f"{type(error).__name__}: {error}" + (f"\n\nAt:{lines}" if lines else "")
    )
    failure.__cause__ = error
    return failure


def _check_futures(name, futures):
    for place, future in enumerate(futures):
        if not isinstance(future, Future):
            kind = RuntimeError if future is None else TypeError
            end = "Future can't be None" if future is None else f"got {type(future).__name__}"
            raise kind(f"{name}: expected a Future at index {place}: {end}")


def collect_all(futures: list[Future[_T]]) -> Future[list[Future[_T]]]:
    """A future of the list of futures, once all are done or the callback of one has failed."""
    _check_futures("collect_all", futures)
    combined, left, lock = Future(), [len(futures)], threading.Lock()

    def one_done(future):
        with lock:
            left[0] -= 1
            if left[0] != 0 and not (left[0] > 0 and future._failed):
                return
            left[0] = 0  # what is done later makes it negative
        if future._failed:
            combined._failed = True
            combined.set_exception(future._future.exception())
        else:
            combined.set_result(futures)

    if not futures:
        combined.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return combined


def wait_all(futures: list[Future[_T]]) -> list[_T]:
    """Wait for all futures and return their values; at once raise what a callback has raised."""
    _check_futures("wait_all", futures)
    return [future.wait() for future in collect_all(futures).wait()]


set_module("rushlight", Future)
