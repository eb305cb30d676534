"""What programs ask about compilation."""

from __future__ import annotations

from collections import Counter, defaultdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.types import Device


# What a compiler would count, by kind: nothing counts here.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: Device) -> bool:
    """Would `torch.compile` make a program faster there? It runs functions as they are."""
    return False
