"""Switches that are assigned for a while."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.nn.modules.module import Module


@contextlib.contextmanager
def assigned(module: Module, values: Any) -> Iterator[Any]:
    """The attributes in `values` have these values inside the context; None leaves one as it is."""
    values = {name: value for name, value in values.items() if value is not None}
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
