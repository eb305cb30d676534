"""What tensors that are spread over processes offer on trial, by its older path."""

from rushlight.distributed.tensor.experimental import implicit_replication, local_map

__all__ = ["implicit_replication", "local_map"]
