"""The older place of what is in `ao.nn.intrinsic.quantized`."""

from rushlight.ao.nn.intrinsic.quantized import *  # noqa: F403
from rushlight.ao.nn.intrinsic.quantized import __all__ as __all__
