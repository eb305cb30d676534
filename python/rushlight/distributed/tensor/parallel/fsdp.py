"""How FSDP divides parameters of tensor parallelism: by itself, with nothing to extend."""

from __future__ import annotations

from rushlight import _absent

globals().update(
    _absent.refused({"DTensorExtensions": "FSDP divides DTensors by itself: fully_shard does"})
)

__all__ = ["DTensorExtensions"]  # noqa: F822
