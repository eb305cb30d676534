"""The name under which torch has what `rushlight.distributed` offers."""

from __future__ import annotations

import sys

import rushlight.distributed as _distributed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = [name for name in dir(_distributed) if not name.startswith("__")]


def __getattr__(name: str) -> Any:
    if name == "_get_default_group":
        from rushlight.distributed._group import default_group

        return default_group
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_distributed, name)


def _get_pg_default_device(group=None):
    """Where tensors of the group live."""
    import rushlight

    _distributed.get_backend(group)
    return rushlight.device("cpu")


def __dir__() -> list[str]:
    return sorted({*vars(sys.modules[__name__]), *_NAMES})
