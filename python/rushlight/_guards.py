"""What libraries ask about programs that are being recorded with fake tensors: none exist."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def active_fake_mode() -> Any:
    """The mode of fake tensors that is entered: None."""
    return None


def detect_fake_mode(inputs: Any = None) -> Any:
    """The mode of fake tensors that is entered, or that of one of the inputs: None."""
    return None
