"""Processes that train by themselves for a while and then take the mean of their parameters."""

from rushlight.distributed.algorithms.model_averaging import averagers

__all__ = ["averagers"]
