"""A server that shows what processes do, which is refused."""

from __future__ import annotations

from rushlight import _absent

_WHY = (
    "there is no such server; a failure names the ranks, and faulthandler shows the stacks of a "
    "process"
)

globals().update(_absent.refused({"start_debug_server": _WHY, "stop_debug_server": _WHY}))

__all__ = ["start_debug_server", "stop_debug_server"]  # noqa: F822
