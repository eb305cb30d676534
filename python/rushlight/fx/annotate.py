"""Types of values in a traced program."""

from __future__ import annotations

from rushlight.fx.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Give the node of a proxy a type; other values stay as they are.

    Returns:
        `val`.

    Raises: RuntimeError if the node has a type, such as that of an annotated parameter.
    """
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(f"annotate: {val.node} has the type {val.node.type} already")
        val.node.type = type
    return val
