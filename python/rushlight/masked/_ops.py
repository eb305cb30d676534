"""The operations, where torch has them."""

from rushlight.masked import *  # noqa: F403
