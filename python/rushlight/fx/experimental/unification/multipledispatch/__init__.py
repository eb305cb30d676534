"""Functions that are chosen by the types of all their arguments."""

from rushlight.fx.experimental.unification.multipledispatch.core import dispatch
from rushlight.fx.experimental.unification.multipledispatch.dispatcher import (
    Dispatcher,
    MDNotImplementedError,
    halt_ordering,
    restart_ordering,
)

__all__ = ["Dispatcher", "MDNotImplementedError", "dispatch", "halt_ordering", "restart_ordering"]
