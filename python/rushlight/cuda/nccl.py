"""NCCL, which needs GPUs."""

from rushlight import _absent

globals().update(_absent.answers({"is_available": False}))
globals().update(
    _absent.refusals(
        "CUDA", ("all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter", "version")
    )
)
