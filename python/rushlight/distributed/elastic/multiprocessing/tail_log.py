"""Shows what is written to files while it is written."""

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from typing_extensions import Self


def tail_logfile(
    header: str,
    file: str,
    dst: TextIO,
    finished: threading.Event,
    interval_sec: float,
    log_line_filter: Callable[[str], bool] | None = None,
) -> None:
    """Copy a file's lines until it has ended.

    Args:
        header: stands before each line.
        file: its path; it may come later.
        dst: where lines go.
        finished: nobody writes to the file any more.
        interval_sec: seconds between looks.
        log_line_filter: which lines to copy; all by default.
    """
    while not os.path.exists(file):
        if finished.wait(interval_sec) and not os.path.exists(file):
            return
    with open(file, errors="replace") as source:
        while True:
            ended = finished.is_set()  # before the look, which then sees all
            while line := source.readline():
                if log_line_filter is None or log_line_filter(line):
                    dst.write(f"{header}{line}")
            if ended:
                return
            finished.wait(interval_sec)


class TailLog:
    """Copies the lines of several files, each in a thread.

    Args:
        name: of what writes them; lines begin with "[NAME NUMBER]:".
        log_files: number -> path.
        dst: where lines go.
        log_line_prefixes: number -> how lines begin instead.
        interval_sec: seconds between looks.
        log_line_filter: which lines to copy; all by default.
    """

    def __init__(
        self,
        name: str,
        log_files: dict[int, str],
        dst: TextIO,
        log_line_prefixes: dict[int, str] | None = None,
        interval_sec: float = 0.1,
        log_line_filter: Callable[[str], bool] | None = None,
    ) -> None:
        self._finished, self._stopped = threading.Event(), False
        prefixes = log_line_prefixes or {}
        self._threads = [
            threading.Thread(
                target=tail_logfile,
                args=(
                    prefixes.get(number, f"[{name}{number}]:"), path, dst, self._finished,
                    interval_sec, log_line_filter,
                ),
                daemon=True,
            )
            for number, path in log_files.items()
        ]  # fmt: skip

    def start(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Copy the rest and end."""
        self._finished.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._stopped = True

    def stopped(self) -> bool:
        """Has it ended?"""
        return self._stopped


__all__ = ["TailLog", "tail_logfile"]
