"""NVIDIA's profiler, which needs a GPU."""

from __future__ import annotations

from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...  # what the lists below make


globals().update(_absent.refusals("CUDA", ("init", "profile", "start", "stop"), RuntimeError))
