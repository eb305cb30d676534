"""The older place of what is in `ao.nn.intrinsic`."""

from rushlight.ao.nn.intrinsic import *  # noqa: F403
from rushlight.ao.nn.intrinsic import __all__ as __all__
