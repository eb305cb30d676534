"""The order of einsum's products, which rushlight finds without the package opt_einsum."""

from __future__ import annotations

import sys

from rushlight.backends._flags import assigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

enabled: bool = True
strategy: str = "auto"  # or "greedy" or "optimal"


def is_available() -> bool:
    """Can an order be found?"""
    return True


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[bool, str]:
    """Sets what is given; returns what was before."""
    global enabled, strategy
    before = enabled, strategy
    enabled = enabled if _enabled is None else _enabled
    strategy = strategy if _strategy is None else _strategy
    return before


def flags(enabled: bool | None = None, strategy: str | None = None) -> Any:
    """Context in which the switches have the given values."""
    return assigned(sys.modules[__name__], {"enabled": enabled, "strategy": strategy})
