"""The older place of what is in `ao.nn.quantized.functional`."""

from rushlight.ao.nn.quantized.functional import *  # noqa: F403
from rushlight.ao.nn.quantized.functional import __all__ as __all__
