"""NCCL, which needs GPUs."""

from __future__ import annotations

from rushlight import _absent
from rushlight._C import _cuda

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...  # what the lists below make


globals().update(_absent.answers({"is_available": False}))
globals().update(
    _absent.refusals("CUDA", ("all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter"))
)


def version() -> tuple[int, int, int]:
    """The version of the NCCL that is installed, as (2, 28, 0).

    Raises: RuntimeError without a GPU or without NCCL.
    """
    number = _cuda.nccl_version()
    return number // 10000, number // 100 % 100, number % 100
