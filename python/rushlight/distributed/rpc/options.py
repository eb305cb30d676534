"""Options of remote procedure calls, which are refused."""

from __future__ import annotations

from rushlight import _absent

_WHY = "rushlight has no remote procedure calls: anyone who reaches the port would run code"
_NAMES = (
    "TensorPipeRpcBackendOptions",
)  # fmt: skip

globals().update(_absent.refused(dict.fromkeys(_NAMES, _WHY)))

__all__ = list(_NAMES)
