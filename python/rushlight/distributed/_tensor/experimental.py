"""What tensors that are spread over processes offer on trial, by its older path."""

from rushlight.distributed.tensor.experimental import (
    context_parallel,
    implicit_replication,
    local_map,
    register_sharding,
)

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
