"""Apple's GPUs, which are not supported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_built() -> bool:
    """Was the library built for them?"""
    return False


def is_available() -> bool:
    """Can tensors live there?"""
    return False


def is_macos_or_newer(major: Any, minor: Any) -> Any:
    """Is this macOS of that version or newer?"""
    import platform

    found = platform.mac_ver()[0]
    return bool(found) and tuple(map(int, found.split(".")[:2])) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Is this macOS 13 or newer?"""
    return False


def get_core_count() -> int:
    """How many cores the GPU has: none is there."""
    return 0


def get_name() -> str:
    """The name of the GPU: none is there."""
    return ""
