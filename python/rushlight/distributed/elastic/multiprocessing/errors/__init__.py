"""How a worker's exception reaches the launcher: `record` writes it into a file."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import signal
import time
import traceback

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"


@dataclasses.dataclass
class ProcessFailure:
    """How a worker ended.

    Args:
        local_rank: its number on its machine.
        pid: its process.
        exitcode: its exit code, or minus the number of the signal that ended it.
        error_file: where `record` has written its exception, if it has.
        rank: its rank.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    rank: int = -1
    message: str = ""
    timestamp: int = 0

    def __post_init__(self) -> None:
        self.timestamp = self.timestamp or int(time.time())
        if not self.message:
            self.message = self._read() or self._how()

    def _read(self):
        if not self.error_file or not os.path.exists(self.error_file):
            return ""
        with open(self.error_file) as file:
            text = file.read()
        if not text:
            return ""
        told = json.loads(text)["message"]
        self.timestamp = int(told["extraInfo"]["timestamp"])
        return told["extraInfo"]["py_callstack"]

    def _how(self):
        if self.exitcode < 0:
            return f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        return "its output says why; decorate its main function with `record` to see it here"

    def signal_name(self) -> Any:
        """The name of the signal that ended it, or "<N/A>"."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"

    def timestamp_isoformat(self) -> Any:
        """When it was, as text."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Workers failed, and were not to be started again.

    Args:
        name: the program.
        failures: rank -> ProcessFailure.
    """

    name: str
    failures: dict[int, ProcessFailure]

    def __init__(self, name: str, failures: Any) -> None:
        self.name, self.failures = name, failures
        if not failures:
            raise AssertionError("ChildFailedError: no failures")
        rank, first = self.get_first_failure()
        others = len(failures) - 1
        code = f"exit code {first.exitcode}" if first.exitcode >= 0 else first.signal_name()
        text = (
            f"{name} FAILED: first rank {rank} (local rank {first.local_rank}, process "
            f"{first.pid}) at {first.timestamp_isoformat()} with {code}: {first.message}"
        )
        super().__init__(text + (f" ({others} more failed)" if others else ""))

    def get_first_failure(self) -> Any:
        """(rank, failure) of the worker that failed first."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]


class ErrorHandler:
    """Writes exceptions where the launcher looks for them."""

    def initialize(self) -> None:
        """Prepare; nothing is needed."""

    def record_exception(self, e: Any) -> None:
        """Write an exception into the file that the launcher has named."""
        path = os.environ.get(_FILE_VARIABLE)
        if not path:
            return
        info = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        message = {"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": info}}
        with open(path, "w") as file:
            json.dump(message, file)


def get_error_handler() -> Any:
    """The ErrorHandler."""
    return ErrorHandler()


def record(fn: Callable[..., Any], error_handler: Any = None) -> Any:
    """Decorate a worker's main function, so that the launcher can show its exception.

    Args:
        fn: the function.
        error_handler: writes the exception; an ErrorHandler by default.

    Example:
        >>> @record
        ... def main():
        ...     return 3
        >>> main()
        3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code not in (None, 0):
                handler.record_exception(end)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper


__all__ = [
    "ChildFailedError",
    "ErrorHandler",
    "ProcessFailure",
    "get_error_handler",
    "record",
]

set_module(f"{__name__}.error_handler", ErrorHandler)
set_module(f"{__name__}.handlers", get_error_handler)
