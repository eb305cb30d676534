"""Registries of patterns, of which torch's are empty since backends have configs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FUSION_PATTERNS: dict[Any, Any] = {}
_QUANT_PATTERNS: dict[Any, Any] = {}
_OUTPUT_OBSERVERS: dict[Any, Any] = {}
_OUTPUT_FAKE_QUANTIZERS: dict[Any, Any] = {}


def _register(registry: dict[Any, Any], pattern: Any) -> Callable[[Any], Any]:
    def add(handler):
        registry[pattern] = handler
        return handler

    return add


def _register_fusion_pattern(pattern: Any) -> Callable[[Any], Any]:
    return _register(_FUSION_PATTERNS, pattern)


def _register_quant_pattern(pattern: Any) -> Callable[[Any], Any]:
    return _register(_QUANT_PATTERNS, pattern)


def get_default_fusion_patterns() -> dict[Any, Any]:
    """Return the handlers of fusions that were registered, by pattern."""
    return dict(_FUSION_PATTERNS)


def get_default_quant_patterns() -> dict[Any, Any]:
    """Return the handlers of patterns that were registered."""
    return dict(_QUANT_PATTERNS)


def get_default_output_activation_post_process_map(is_training: bool) -> dict[Any, Any]:
    """Return the observers of results that were registered, by pattern.

    Args:
        is_training: those that round.
    """
    return dict(_OUTPUT_FAKE_QUANTIZERS if is_training else _OUTPUT_OBSERVERS)


__all__ = [
    "get_default_fusion_patterns", "get_default_output_activation_post_process_map",
    "get_default_quant_patterns",
]  # fmt: skip
