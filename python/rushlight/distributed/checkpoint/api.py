"""The error of checkpoints."""

from __future__ import annotations

from rushlight._set_module import set_module


class CheckpointException(Exception):
    """A checkpoint cannot be written or read.

    Args:
        msg: what was being done.
        failures: by rank, the exception and the text of its traceback.
    """

    def __init__(self, msg: str, failures: dict[int, tuple[Exception, str]]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, tuple[Exception, str]]:
        """By rank, the exception and the text of its traceback."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"{self.args[0]}: failed in ranks {sorted(self._failures)}"]
        for rank, (error, where) in sorted(self._failures.items()):
            lines.append(f"rank {rank}: {type(error).__name__}: {error}")
            lines.append(where.rstrip())
        return "\n".join(lines)


set_module("rushlight.distributed.checkpoint.api", CheckpointException)
