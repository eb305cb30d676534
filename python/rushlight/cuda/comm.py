"""Copies between GPUs; there are none."""

from rushlight import _absent

_NAMES = (
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
)
globals().update(_absent.refusals("CUDA", _NAMES))
