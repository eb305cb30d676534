"""How processes that a launcher starts are to be bound: the launchers here refuse to bind any."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["AffinityMode", "NumaOptions"]


class AffinityMode(str, Enum):
    """Which processors a process may use: those of a node, of a socket, or its own share."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclass(frozen=True)
class NumaOptions:
    """How to bind a process.

    Args:
        affinity_mode: to which processors.
        should_fall_back_if_binding_fails: whether it runs unbound where that is not possible.
    """

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False
