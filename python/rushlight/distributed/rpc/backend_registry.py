"""Backends of remote procedure calls, which are refused."""

from __future__ import annotations

from rushlight import _absent

_WHY = "rushlight has no remote procedure calls: anyone who reaches the port would run code"
_NAMES = (
    "BackendType", "BackendValue", "backend_registered", "construct_rpc_backend_options",
    "init_backend", "register_backend",
)  # fmt: skip

globals().update(_absent.refused(dict.fromkeys(_NAMES, _WHY)))

__all__ = list(_NAMES)
