"""Where get_error_handler is in older programs."""

from rushlight.distributed.elastic.multiprocessing.errors import get_error_handler

__all__ = ["get_error_handler"]
