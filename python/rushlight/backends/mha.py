"""PyTorch's fast path of attention in inference, whose results our layers give while it is on."""

from __future__ import annotations

_enabled = True


def get_fastpath_enabled() -> bool:
    """Say whether the fast path may be taken."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Choose whether the fast path may be taken."""
    global _enabled
    _enabled = value
