"""The older place of what is in `ao.nn.quantized.dynamic`."""

from rushlight.ao.nn.quantized.dynamic import *  # noqa: F403
from rushlight.ao.nn.quantized.dynamic import __all__ as __all__
