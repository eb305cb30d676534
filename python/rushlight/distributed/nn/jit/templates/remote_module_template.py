"""Parts of RemoteModule, which is refused."""

from __future__ import annotations

from rushlight import _absent

_WHY = "RemoteModule stands on remote procedure calls, which there are none of"
_NAMES = (
    "get_remote_module_template",
)  # fmt: skip

globals().update(_absent.refused(dict.fromkeys(_NAMES, _WHY)))

__all__ = list(_NAMES)
