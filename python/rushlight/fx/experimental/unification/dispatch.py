"""Functions of unification that are chosen by types."""

import functools

from rushlight.fx.experimental.unification import multipledispatch as _multipledispatch

__all__ = ["dispatch", "namespace"]

namespace = {}
dispatch = functools.partial(_multipledispatch.dispatch, namespace=namespace)
