"""The older place of what is in `ao.nn.intrinsic.qat`."""

from rushlight.ao.nn.intrinsic.qat import *  # noqa: F403
from rushlight.ao.nn.intrinsic.qat import __all__ as __all__
