"""Libraries for quantized tensors: there are none, as there are no such tensors."""

supported_engines = ["none"]
engine = "none"
