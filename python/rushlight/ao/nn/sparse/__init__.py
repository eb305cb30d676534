"""Layers with sparse weights."""

from rushlight.ao.nn.sparse import quantized

__all__ = ["quantized"]
