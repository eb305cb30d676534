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


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Say how an operation is written to ONNX files: nothing asks for it, see `export`."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Undo `register_custom_op_symbolic`."""


__all__ = [
    "OnnxExporterError", "dynamo_export", "export", "is_in_onnx_export",
    "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]  # fmt: skip
