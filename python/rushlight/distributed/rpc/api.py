"""Remote procedure calls, which are refused."""

from __future__ import annotations

import functools

from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])

_WHY = "rushlight has no remote procedure calls: anyone who reaches the port would run code"
_NAMES = (
    "AllGatherStates", "RRef", "_all_gather", "_barrier", "_wait_all", "get_worker_info",
    "method_factory", "new_method", "remote", "rpc_async", "rpc_sync", "shutdown",
)  # fmt: skip

globals().update(_absent.refused(dict.fromkeys(_NAMES, _WHY)))

__all__ = [name for name in _NAMES if not name.startswith("_")]


def _require_initialized(func: _F) -> _F:
    """A function that asks for remote calls first, and so raises when it is called."""

    @functools.wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{func.__name__}: RPC has not been initialized: {_WHY}")

    return called  # type: ignore[return-value]


def _is_current_rpc_agent_set() -> bool:
    """Is there an agent of remote calls? There is none."""
    return False
