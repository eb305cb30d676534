"""Quantisation, as far as models that are not quantised need its names."""

from rushlight.ao import quantization

__all__ = ["quantization"]
