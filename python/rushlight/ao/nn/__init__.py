"""Layers of quantized models: quantized, trained with fake quantization, and fused."""

from rushlight.ao.nn import intrinsic, qat, quantizable, quantized, sparse

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "sparse"]
