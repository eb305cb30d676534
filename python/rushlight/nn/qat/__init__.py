"""The older place of what is in `ao.nn.qat`."""

from rushlight.ao.nn.qat import *  # noqa: F403
from rushlight.ao.nn.qat import __all__ as __all__
