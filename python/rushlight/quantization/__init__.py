"""The older place of what is in `ao.quantization`."""

from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.quantization import *  # noqa: F403
from rushlight.ao.quantization import __all__ as __all__

_add_modules(
    __name__,
    {
        name: f"ao.quantization.{name}"
        for name in (
            "fake_quantize", "fuse_modules", "fuser_method_mappings", "observer", "qconfig",
            "quant_type", "quantization_mappings", "quantize", "quantize_jit", "stubs", "utils",
        )
    },
)  # fmt: skip
