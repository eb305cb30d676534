"""Functions of unification that are chosen by types."""

from __future__ import annotations

import functools

from rushlight.fx.experimental.unification import multipledispatch as _multipledispatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["dispatch", "namespace"]

namespace: dict[str, _multipledispatch.Dispatcher] = {}
dispatch: Callable[..., Any] = functools.partial(_multipledispatch.dispatch, namespace=namespace)
