"""Functions that torch makes of other operations, written as these.

Each file has a table from the name of a function to what it is: a function that calls `emit`, with
the arguments of its row in the table of operations, or, where it is one of Python, with those that
the program gave. One that returns NotImplemented leaves the call to the library's own.
"""

from __future__ import annotations

from rushlight._dispatch._composites import (
    _einsum,
    _layers,
    _linear_algebra,
    _losses,
    _pointwise,
    _shapes,
    _statistics,
    _transforms,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WRITTEN: dict[str, Callable[..., Any]] = {
    **_shapes.WRITTEN,
    **_pointwise.WRITTEN,
    **_statistics.WRITTEN,
    **_linear_algebra.WRITTEN,
    **_einsum.WRITTEN,
    **_layers.WRITTEN,
    **_losses.WRITTEN,
    **_transforms.WRITTEN,
}
