"""A part of a reader of NCCL's records, which is refused."""

from __future__ import annotations

from rushlight import _absent

_WHY = "no records of collectives are written; a failure names the ranks and the line"
_NAMES = (
    "FlightRecorderLogger",
)  # fmt: skip

globals().update(_absent.refused(dict.fromkeys(_NAMES, _WHY)))

__all__ = list(_NAMES)
