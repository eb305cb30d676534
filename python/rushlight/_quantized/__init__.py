"""Quantized tensors and the functions that round to their steps."""
