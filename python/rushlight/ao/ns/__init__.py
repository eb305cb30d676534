"""Comparison of models before and after quantization: the qconfigs of several at once."""

from rushlight.ao.ns import fx

__all__ = ["fx"]
