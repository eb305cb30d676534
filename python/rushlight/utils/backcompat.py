"""Warnings for programs older than broadcasting, which torch keeps as switches."""

from __future__ import annotations

from rushlight._ignored import warn_once


class Warning:
    """A switch of warnings that are given no longer, as in torch: to turn it on is warned of."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._enabled = False

    def get_enabled(self) -> bool:
        """Return whether the switch is on."""
        return self._enabled

    def set_enabled(self, value: bool) -> None:
        """Turn the switch on or off."""
        if value:
            warn_once(f"utils.backcompat.{self._name}: operations follow the rules of today alone")
        self._enabled = bool(value)

    enabled: property = property(get_enabled, set_enabled)


broadcast_warning: Warning = Warning("broadcast_warning")
keepdim_warning: Warning = Warning("keepdim_warning")
