"""Quantization of traced models."""
