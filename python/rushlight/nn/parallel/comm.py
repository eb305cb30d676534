"""Tensors on several devices: copies, sums and parts."""

from rushlight._set_module import set_module as _set_module
from rushlight.cuda.comm import (
    broadcast,
    broadcast_coalesced,
    gather,
    reduce_add,
    reduce_add_coalesced,
    scatter,
)

__all__ = [
    "broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter",
]  # fmt: skip

_set_module(
    __name__, broadcast, broadcast_coalesced, gather, reduce_add, reduce_add_coalesced, scatter
)
