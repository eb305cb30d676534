"""The older place of what is in `ao.nn.quantizable`."""

from rushlight.ao.nn.quantizable import *  # noqa: F403
from rushlight.ao.nn.quantizable import __all__ as __all__
