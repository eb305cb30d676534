"""The name of a part of `rushlight._core_names` in torch."""

from rushlight._core_names import _ExperimentalConfig

__all__ = ["_ExperimentalConfig"]
