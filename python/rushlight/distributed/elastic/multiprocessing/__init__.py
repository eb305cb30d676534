"""The processes of a run that `rushlight.distributed.run` starts."""

from rushlight.distributed.elastic.multiprocessing import errors

__all__ = ["errors"]
