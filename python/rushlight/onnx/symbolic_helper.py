"""Descriptions of operations for ONNX, which libraries make when they are imported: not used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def parse_args(*descriptors: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks the kinds of a description's arguments."""
    return lambda function: function


__all__ = ["parse_args"]
