"""Warnings for programs older than broadcasting, which torch keeps as switches."""

from __future__ import annotations

from rushlight._ignored import warn_once


class Warning:
    """A switch of warnings that are given no longer, as in torch: to turn it on is warned of."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._enabled = False

    @property
    def enabled(self) -> bool:
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value:
            warn_once(f"utils.backcompat.{self._name}: operations follow the rules of today alone")
        self._enabled = bool(value)


broadcast_warning = Warning("broadcast_warning")
keepdim_warning = Warning("keepdim_warning")
