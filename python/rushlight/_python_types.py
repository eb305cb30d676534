"""dtypes that a program gives as types of Python's numbers: `to(float)`."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DTYPES = {
    bool: rushlight.bool, int: rushlight.int64, float: rushlight.float64,
    complex: rushlight.complex128,
}  # fmt: skip


def as_dtype(given: Any) -> Any:
    """The dtype that a type of numbers stands for; anything else as it is."""
    return _DTYPES.get(given, given) if isinstance(given, type) else given
