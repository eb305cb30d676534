"""Values that are set later, from another thread."""

from __future__ import annotations

import concurrent.futures
import types

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.types import _device


def _wait_for_event(event: Any) -> None:
    """Let what the current stream of a GPU is given from now on wait for an event."""
    from rushlight import cuda

    cuda.current_stream(event.device_index).wait_event(event)


class Future:
    """A value, or an exception, that some thread will set.

    Args:
        devices: accepted; who waits for values on a GPU waits for the work that writes them.
    """

    __class_getitem__: Any = classmethod(types.GenericAlias)  # Future[Tensor], in annotations

    def __init__(self, *, devices: list[int | str | _device] | None = None) -> None:
        self._future = concurrent.futures.Future()
        self._event: Any = None  # the end of the work of a GPU that writes the value

    def done(self) -> bool:
        """Is the value set?"""
        return self._future.done()

    def wait(self) -> Any:
        """Wait for the value and return it, or raise the exception that was set."""
        result = self._future.result()
        if self._event is not None:
            _wait_for_event(self._event)
        return result

    def value(self) -> Any:
        """The value, which must be set."""
        if not self.done():
            raise RuntimeError("Future is not completed yet: call wait()")
        return self.wait()

    def set_result(self, result: Any) -> None:
        """Set the value; once."""
        try:
            self._future.set_result(result)
        except concurrent.futures.InvalidStateError:
            raise RuntimeError("Future can only be marked completed once") from None

    def set_exception(self, result: Any) -> None:
        """Set an exception, which wait() raises."""
        assert isinstance(result, Exception), (
            f"{result} is of type {type(result)}, not an Exception."
        )
        self._future.set_exception(result)

    def then(self, callback: Callable[..., Any]) -> Any:
        """A future of callback(self), called when the value is set."""
        following = Future()

        def run(_):
            try:
                following._set_after(self, callback(self))
            except Exception as error:
                following.set_exception(error)

        self._future.add_done_callback(run)
        return following

    def _set_after(self, before, result):
        """Set what a callback has made of the value of `before`, by work of the current stream."""
        if before._event is not None:
            from rushlight import cuda

            self._event = cuda.current_stream(before._event.device_index).record_event()
        self.set_result(result)

    def add_done_callback(self, callback: Callable[..., Any]) -> None:
        """Call callback(self) when the value is set."""
        self._future.add_done_callback(lambda _: callback(self))


def collect_all(futures: list[Any]) -> Any:
    """A future of the list of futures, once all are done."""
    combined, left = Future(), [len(futures)]

    def one_done(_):
        left[0] -= 1
        if left[0] == 0:
            combined.set_result(futures)

    if not futures:
        combined.set_result(futures)
    for future in futures:
        future.add_done_callback(one_done)
    return combined


def wait_all(futures: list[Any]) -> list[Any]:
    """Wait for all futures and return their values."""
    return [future.wait() for future in futures]


set_module("rushlight", Future)
