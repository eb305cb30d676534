"""Export to ONNX, which is not supported: files of weights go through `rushlight.save` or
safetensors.
"""


class OnnxExporterError(RuntimeError):
    """A model cannot be exported."""


def export(model, args=(), f=None, **options):
    """Raises OnnxExporterError: models are not exported."""
    raise OnnxExporterError(
        "onnx.export: rushlight does not write ONNX files; save the weights, and export from "
        "PyTorch, which can load them"
    )


dynamo_export = export


def is_in_onnx_export():
    """Is a model being exported? Never."""
    return False


__all__ = ["OnnxExporterError", "dynamo_export", "export", "is_in_onnx_export"]
