"""Remote procedure calls, which are refused: anyone who reaches the port runs code.

Programs for one process import the module and never call it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """Are there remote calls? No."""
    return False


def init_rpc(name: str, *args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError: there are no remote calls."""
    raise NotImplementedError(f"init_rpc: {name}: rushlight has no remote procedure calls")


__all__ = ["init_rpc", "is_available"]
