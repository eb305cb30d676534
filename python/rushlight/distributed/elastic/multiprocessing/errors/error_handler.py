"""Where ErrorHandler is in older programs."""

from rushlight.distributed.elastic.multiprocessing.errors import ErrorHandler

__all__ = ["ErrorHandler"]
