"""This process as a member of a world: a connection to the store's server on which it learns who
died, who left, and who lets whom wait.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import traceback

from rushlight.distributed import _wire
from rushlight.distributed._table import Request
from rushlight.distributed._tcp_store import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def host_name() -> Any:
    """The name of this machine, as MPI is told: RUSHLIGHT_NODE or the host's name."""
    return os.environ.get("RUSHLIGHT_NODE") or socket.gethostname()


def call_site(frame: Any) -> str:
    """File and line of the innermost frame outside of rushlight."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def line_of_main_thread() -> str:
    """Where the main thread is, for others who wait for it."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    if frame is None:
        return "its end"
    outside = frame
    while outside.f_back is not None and outside.f_code.co_filename.startswith(_PACKAGE):
        outside = outside.f_back
    function = outside.f_code.co_name
    where = "at top level" if function == "<module>" else f"in {function}"
    return f"{os.path.basename(outside.f_code.co_filename)}:{outside.f_lineno} {where}"


def reason_for_end() -> Any:
    """Why this process ends, and whether that is a failure: known when the interpreter exits."""
    error = getattr(sys, "last_value", None)
    if error is None or isinstance(error, SystemExit):
        return "it ended normally", False
    # Not extract_tb, which reads the source of each line.
    where = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(error.__traceback__)]
    outside = [entry for entry in where if not entry[0].startswith(_PACKAGE)] or where
    line = f" at {os.path.basename(outside[-1][0])}:{outside[-1][1]}" if outside else ""
    first = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {first}{line}", True


class Member:
    """The connection of a rank to the server.

    Args:
        host, port: where the server is.
        world: the world's name.
        rank: this process's rank there.
        seconds: time-out for all to come.
        server_rank: the rank in whose process the server is; None if it is in none of them.
    """

    def __init__(
        self, host: Any, port: Any, world: Any, rank: int, seconds: Any, server_rank: Any
    ) -> None:
        self.rank = rank
        self._server_rank = server_rank
        self.failure = None
        self.hosts = None
        self.left = {}  # rank -> why
        self.on_failure = self.on_left = lambda: None
        self.report = lambda: None
        self._complete = threading.Event()
        self._in_library = False
        self._sending = threading.Lock()
        self._socket = connect(host, port, seconds)
        about = {"host": host_name(), "pid": os.getpid(), "timeout": seconds}
        fields = [world.encode(), str(rank).encode(), json.dumps(about).encode()]
        self._socket.sendall(_wire.frame(Request.JOIN_WORLD, fields))
        code, reply = _wire.read_frame(self._socket)
        if code != _wire.OK:
            self._socket.close()
            raise ValueError(f"init_process_group: {reply[0].decode()}")
        self._socket.settimeout(None)
        self._server = f"{host}:{port}"
        self._leaving = False
        self._thread = threading.Thread(target=self._listen, name="rushlight member", daemon=True)
        self._thread.start()

    def wait_for_all(self, seconds: Any) -> Any:
        """Wait until all ranks have come; False if that fails or takes too long."""
        return self._complete.wait(seconds) and self.failure is None

    def _listen(self):
        try:
            while True:
                _, fields = _wire.read_frame(self._socket)
                self._hear(json.loads(fields[0]))
        except (OSError, ValueError):
            if not self._leaving and self._server_rank not in self.left:
                self._fail(f"{self.who_serves()} died")

    def _hear(self, event):
        if event["event"] == "complete":
            self.hosts = event["hosts"]
            self._complete.set()
        elif event["event"] == "failed":
            self._fail(event["text"])
        elif event["event"] == "left":
            self.left[event["rank"]] = event["why"]
            self.on_left()
        elif event["event"] == "report":
            self._send(event="report", report=self.report())

    def _fail(self, text):
        if self.failure is None:
            self.failure = text
            self._complete.set()
            self.on_failure()
            if self._in_library:
                # MPI waits for those that will never come, and nothing can interrupt it.
                print(f"rushlight.distributed: {self._in_library}: {text}", file=sys.stderr)
                sys.stderr.flush()
                os._exit(1)

    def _send(self, **message):
        with self._sending:
            self._socket.sendall(_wire.frame(_wire.MESSAGE, [json.dumps(message).encode()]))

    def stuck(self, report: Any) -> None:
        """Ask who lets this rank wait; the answer comes as a failure."""
        self._send(event="stuck", report=report)

    def leave(self, why: Any, failed: bool = False) -> None:
        """Say that this rank takes part no more."""
        if not self._leaving:
            self._leaving = True
            # Where nobody listens, the server has gone before.
            with contextlib.suppress(OSError):
                self._send(event="leave", why=why, failed=failed)
                # The server closes its side when it has told the others; it may be in this process.
                self._socket.shutdown(socket.SHUT_WR)
                self._thread.join(1.0)

    def library_call(self, name: str) -> Any:
        """A context for a call of MPI that cannot be interrupted: a failure then ends the process,
        with a message.
        """
        return _LibraryCall(self, f"{name} at {call_site(sys._getframe(1))}")

    def who_serves(self) -> str:
        """The process of the server, for messages."""
        of_rank = "" if self._server_rank is None else f"rank {self._server_rank}, "
        return f"{of_rank}the process that serves the store at {self._server},"

    def forget_after_fork(self) -> None:
        """In a forked process: close the copy of the socket, so that the server sees it when the
        parent dies.
        """
        self._leaving = True
        self._socket.close()


class _LibraryCall:
    def __init__(self, member: Any, name: str) -> None:
        self._member, self._name = member, name

    def __enter__(self) -> Self:
        self._member._in_library = self._name

    def __exit__(self, *error: Any) -> None:
        self._member._in_library = False
