"""A worker that runs a command."""

from rushlight.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
    get_subprocess_handler,
)

__all__ = ["SubprocessHandler", "get_subprocess_handler"]
