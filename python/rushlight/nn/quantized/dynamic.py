"""The older place of what is in `ao.nn.quantized.dynamic`."""

from rushlight._module_paths import copy_modules as _copy_modules
from rushlight.ao.nn.quantized.dynamic import *  # noqa: F403
from rushlight.ao.nn.quantized.dynamic import __all__ as __all__

_copy_modules(__name__, "rushlight.ao.nn.quantized.dynamic")
