"""What programs ask about compilation."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.types import Device


def is_compile_supported(device_type: Device) -> bool:
    """Would `torch.compile` make a program faster there? It runs functions as they are."""
    return False
