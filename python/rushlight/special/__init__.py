"""Special functions of mathematics, element by element."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight._C._special import *  # noqa: F403

globals().update(_C._functions["special"])

if not TYPE_CHECKING:  # who reads types reads the imports
    __all__ = sorted(_C._functions["special"])
