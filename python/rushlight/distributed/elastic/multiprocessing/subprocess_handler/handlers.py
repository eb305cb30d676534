"""Where get_subprocess_handler is in older programs."""

from rushlight.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    get_subprocess_handler,
)

__all__ = ["get_subprocess_handler"]
