"""A worker that runs a command."""

from __future__ import annotations

import os
import signal
import subprocess

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SubprocessHandler:
    """Runs a command in a session of its own, so that what it starts ends with it.

    Args:
        entrypoint: the command.
        args: its arguments.
        env: environment variables, beside those of this process.
        stdout, stderr: files that its streams go to; None leaves them.
        local_rank_id: the worker's number.
        numa_options: None.
    """

    proc: subprocess.Popen[bytes]

    def __init__(
        self, entrypoint: str, args: tuple[Any, ...], env: dict[str, str], stdout: str | None,
        stderr: str | None, local_rank_id: int, numa_options: Any = None,
    ) -> None:  # fmt: skip
        if numa_options is not None:
            raise NotImplementedError("SubprocessHandler: numa_options are not supported")
        self.local_rank_id = local_rank_id
        files = [open(path, "wb") if path else None for path in (stdout, stderr)]
        try:
            self.proc = subprocess.Popen(
                [entrypoint, *map(str, args)], env={**os.environ, **env}, stdout=files[0],
                stderr=files[1], start_new_session=True,
            )  # fmt: skip
        finally:
            for file in files:
                if file is not None:
                    file.close()

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Send a signal to the worker and what it has started; SIGTERM by default."""
        os.killpg(self.proc.pid, death_sig or signal.SIGTERM)


def get_subprocess_handler(
    entrypoint: str, args: tuple[Any, ...], env: dict[str, str], stdout: str | None,
    stderr: str | None, local_rank_id: int, numa_options: Any = None,
) -> SubprocessHandler:  # fmt: skip
    """A SubprocessHandler."""
    return SubprocessHandler(entrypoint, args, env, stdout, stderr, local_rank_id, numa_options)


__all__ = ["SubprocessHandler", "get_subprocess_handler"]

set_module(f"{__name__.rpartition('.')[0]}.handlers", get_subprocess_handler)
