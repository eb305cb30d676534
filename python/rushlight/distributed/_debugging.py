"""A breakpoint in one rank, for which the others wait."""

from __future__ import annotations

import datetime
import pdb
import sys

from rushlight._set_module import set_module
from rushlight.distributed import _collectives as collectives, _group

_passed: dict[tuple[str, int], int] = {}  # how often a line has been passed


class _Debugger(pdb.Pdb):
    """pdb that asks the terminal, also in a process whose standard input is closed."""

    def interaction(self, *args: object) -> None:
        before = sys.stdin
        with open("/dev/stdin") as terminal:
            sys.stdin = terminal
            try:
                super().interaction(*args)
            finally:
                sys.stdin = before


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float | None = 3600) -> None:
    """Stop in the debugger in one rank; the others wait until it goes on.

    All ranks call it.

    Args:
        rank: the one to stop.
        skip: how many calls at this line to pass by first.
        timeout_s: seconds that collectives may take from then on, for all groups; None leaves it.

    Raises:
        ValueError: there is no world, or it has no such rank.
    """
    world = _group.default_group()
    if not 0 <= rank < world.size():
        raise ValueError(f"breakpoint: rank {rank} is not in a world of {world.size()}")
    caller = sys._getframe(1)
    if skip > 0:
        line = caller.f_code.co_filename, caller.f_lineno
        _passed[line] = _passed.get(line, 0) + 1
        if _passed[line] <= skip:
            return
    if timeout_s is not None:
        for group in _group.groups.by_name.values():
            group.set_timeout(datetime.timedelta(seconds=timeout_s))
    if world.rank() == rank:
        debugger = _Debugger()
        debugger.message(f"\nrank {rank} is at a breakpoint; the others wait\n")
        debugger.set_trace(caller)
    collectives.barrier()


set_module("rushlight.distributed", breakpoint)

__all__ = ["breakpoint"]
