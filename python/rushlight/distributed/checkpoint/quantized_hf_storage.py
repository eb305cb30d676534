"""Where torch has the reader of quantized files."""

from rushlight._set_module import set_module
from rushlight.distributed.checkpoint.hf_storage import QuantizedHuggingFaceStorageReader

set_module(__name__, QuantizedHuggingFaceStorageReader)

__all__ = ["QuantizedHuggingFaceStorageReader"]
