"""How a worker's exception reaches the launcher: `record` writes it into a file."""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import functools
import json
import logging
import os
import signal
import socket
import time
import traceback

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"
_log = logging.getLogger(__name__)


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
    error_file_data: dict[str, Any] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.error_file_data = {"message": "<NONE>"}
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
        self.error_file_data = json.loads(text)
        told = self.error_file_data["message"]
        if isinstance(told, str):
            self.timestamp = int(self.error_file_data.get("timestamp", 0))
            return told
        self.timestamp = int(told["extraInfo"]["timestamp"])
        return told["extraInfo"].get("py_callstack", told.get("message", ""))

    def _how(self):
        if self.exitcode < 0:
            return f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        return "its output says why; decorate its main function with `record` to see it here"

    def signal_name(self) -> Any:
        """The name of the signal that ended it, or "<N/A>"."""
        names = {number.value: number.name for number in signal.Signals}
        return names.get(-self.exitcode, "<N/A>")

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

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """All failures as text of several lines, the first to fail at the end.

        Args:
            boarder_delim: a character for the lines around it.
            section_delim: a character for the lines within.
        """
        first, _ = self.get_first_failure()
        told = {rank: _described(rank, failure) for rank, failure in self.failures.items()}
        root = told.pop(first)
        title = f"{self.name} FAILED"
        lines = "\n".join((title, root, *told.values())).splitlines()
        width = min(60, max(map(len, lines)))
        border, section = boarder_delim * width, section_delim * width
        others = "\n".join(told.values()) or "  <NO_OTHER_FAILURES>"
        return (
            f"\n{border}\n{title}\n{section}\nFailures:\n{others}\n{section}\n"
            f"Root Cause (first observed failure):\n{root}\n{border}"
        )

    def get_first_failure(self) -> Any:
        """(rank, failure) of the worker that failed first."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]


def _described(rank, failure):
    """A failure as several lines."""
    name = failure.signal_name()
    return (
        f"rank {rank} (local rank {failure.local_rank}, process {failure.pid}):\n"
        f"  time      : {failure.timestamp_isoformat()}\n"
        f"  host      : {socket.getfqdn()}\n"
        f"  exitcode  : {failure.exitcode}{'' if name == '<N/A>' else f' ({name})'}\n"
        f"  error_file: {failure.error_file or '<N/A>'}\n"
        "  traceback : " + failure.message.replace("\n", "\n  ")
    )


class ErrorHandler:
    """Writes exceptions where the launcher looks for them."""

    def initialize(self) -> None:
        """Let Python show its stack when a signal such as SIGSEGV ends this process."""
        if not faulthandler.is_enabled():
            with contextlib.suppress(Exception):  # standard error may be no file
                faulthandler.enable(all_threads=True)

    def override_error_code_in_rootcause_data(
        self, rootcause_error_file: str, rootcause_error: dict[str, Any], error_code: int = 0
    ) -> None:
        """Put the exit code of a process into what its error file says, where there is room for it.

        Args:
            rootcause_error_file: the file, for messages.
            rootcause_error: what it says; changed.
            error_code: the exit code.
        """
        told = rootcause_error.get("message")
        if isinstance(told, dict):
            told["errorCode"] = error_code
        else:
            _log.warning("%s has no place for the exit code %d", rootcause_error_file, error_code)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy a worker's error file to that of this process, for the launcher above.

        Args:
            rootcause_error_file: the worker's.
            error_code: its exit code, or 0 to leave that out.
        """
        with open(rootcause_error_file) as file:
            told = json.load(file)
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, told, error_code)
        path = os.environ.get(_FILE_VARIABLE)
        if path:
            with open(path, "w") as file:
                json.dump(told, file)
        else:
            _log.error("%s names no file to which %s goes", _FILE_VARIABLE, rootcause_error_file)

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
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if os.path.isfile(failure.error_file or ""):
                handler.dump_error_file(failure.error_file, failure.exitcode)
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
