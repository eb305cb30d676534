"""The exceptions of `rushlight.onnx`, by the names that torch has for them."""

from __future__ import annotations

from rushlight.onnx import OnnxExporterError

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError",
           "UnsupportedOperatorError"]  # fmt: skip


class OnnxExporterWarning(UserWarning):
    """A warning of the export."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operation has no operator in ONNX."""


class SymbolicValueError(OnnxExporterError):
    """A value of the graph does not fit an operator."""
