"""Options of deterministic algorithms."""

from __future__ import annotations

import sys
import types

from rushlight import _C, _settings


class _Module(types.ModuleType):
    """The module; programs assign to its option."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Fill memory that nobody wrote while deterministic algorithms are asked for?"""
        return _settings._settings["fill_uninitialized_memory"]

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, fill: bool) -> None:
        if not isinstance(fill, bool):
            raise RuntimeError(f"expected a bool, but got {type(fill).__name__}")
        _settings._settings["fill_uninitialized_memory"] = fill
        _C._set_fills_uninitialized(fill and _settings.are_deterministic_algorithms_enabled())


sys.modules[__name__].__class__ = _Module
