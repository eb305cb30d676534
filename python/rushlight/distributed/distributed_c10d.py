"""The name under which torch has what `rushlight.distributed` offers, and what libraries reach for
below it.
"""

from __future__ import annotations

import sys

import rushlight
import rushlight.distributed as _distributed
from rushlight.distributed._group import default_group as _get_default_group, groups as _groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = [name for name in dir(_distributed) if not name.startswith("__")]

_TORCHCOMM_AVAILABLE = False  # torchcomms, a library of collectives, stands on torch itself


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_distributed, name)


def _get_global_rank(group, rank):
    """An older name of `get_global_rank`."""
    return _distributed.get_global_rank(group, rank)


def _get_pg_default_device(group=None):
    """Where tensors of the group live."""
    _distributed.get_backend(group)
    return rushlight.device("cpu")


def _get_default_store():
    """Where small values of all processes are exchanged."""
    return _get_default_group()._world.store


def _resolve_process_group(group_name):
    """The group of a name."""
    if group_name not in _groups.by_name:
        raise RuntimeError(f"there is no process group {group_name!r}")
    return _groups.by_name[group_name]


def _rank_not_in_group(group):
    """Is this process in another group than this one?"""
    return group is _distributed.GroupMember.NON_GROUP_MEMBER


class _World:
    """The groups of this process in the tables that torch has for them."""

    @property
    def default_pg(self):
        """The group of all processes, or None."""
        return _groups.default

    @property
    def pg_map(self):
        """Groups with their backends and stores."""
        return {g: (str(g._backend), g.get_group_store()) for g in _groups.by_name.values()}

    @property
    def pg_names(self):
        """Groups with their names."""
        return {group: name for name, group in _groups.by_name.items()}

    @property
    def pg_group_ranks(self):
        """Groups with the number in the group of each rank in the world."""
        return {
            group: {rank: i for i, rank in enumerate(group._ranks)}
            for group in _groups.by_name.values()
        }

    @property
    def group_count(self):
        """How many groups were made."""
        return _groups.made


_world = _World()


def __dir__() -> list[str]:
    return sorted({*vars(sys.modules[__name__]), *_NAMES})
