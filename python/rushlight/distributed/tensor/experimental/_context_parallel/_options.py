"""How processes share the work of attention, and how keys and values reach them."""

from __future__ import annotations

import dataclasses
import enum


class _RotateMethod(enum.Enum):
    """How a process gets the keys and values of the others."""

    ALL_TO_ALL = enum.auto()  # around a ring, each time from the process before
    ALL_GATHER = enum.auto()  # all at once


@dataclasses.dataclass
class _Options:
    """The choices that programs can make.

    Args:
        enable_load_balance: divide sequences so that each process has as much to do for causal
            attention.
        rotate_method: how keys and values travel.
    """

    enable_load_balance: bool = True
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _Options()


def set_rotate_method(rotate_method: str) -> None:
    """Choose how keys and values reach the other processes.

    Args:
        rotate_method: "allgather", by default: all at once, while the first part is computed;
            "alltoall": around a ring, which needs memory for one further part alone.
    """
    methods = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}
    if rotate_method not in methods:
        raise NotImplementedError(
            f"set_rotate_method: expected 'allgather' or 'alltoall', got {rotate_method!r}"
        )
    _cp_options.rotate_method = methods[rotate_method]


__all__ = ["set_rotate_method"]
