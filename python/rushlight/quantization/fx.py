"""The older place of what is in `ao.quantization.fx`."""

from rushlight._module_paths import copy_modules as _copy_modules

_copy_modules(
    __name__,
    "rushlight.ao.quantization.fx",
    *("convert", "fuse", "fuse_handler", "graph_module", "pattern_utils", "prepare"),
    *("quantize_handler", "utils"),
)
