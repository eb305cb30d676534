"""The older place of what is in `ao.quantization.quantize_fx`."""

from rushlight.ao.quantization.quantize_fx import *  # noqa: F403
from rushlight.ao.quantization.quantize_fx import __all__ as __all__
