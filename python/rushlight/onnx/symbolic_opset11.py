"""Descriptions of operations for ONNX: none, as nothing is exported."""
