"""`out=` of functions that are written in Python."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


def into(out: Tensor | None, result: Any) -> Tensor:
    """The result, or `out` with the result in it, resized and checked as an operation does it."""
    return result if out is None else rushlight.alias_copy(result, out=out)
