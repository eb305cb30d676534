"""mpi4py as other libraries import it, in a process that no MPI launcher has started.

Importing mpi4py.MPI starts MPI, and MPI can be started once: a library that only asks how many
processes there are, as Lightning does, would leave this process alone for good. So MPI is started
when more is asked of COMM_WORLD than its size and this process's rank, or when a process group is
made.
"""

from __future__ import annotations

import atexit
import importlib.abc
import sys

from rushlight.distributed._launchers import of_mpi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_ALONE = {"size": 1, "rank": 0, "Get_size": lambda: 1, "Get_rank": lambda: 0}


class _World:
    """COMM_WORLD, which starts MPI when it is used."""

    def __init__(self, mpi: ModuleType) -> None:
        self._mpi, self._world = mpi, mpi.COMM_WORLD

    def __getattr__(self, name: str) -> Any:
        if not self._mpi.Is_initialized():
            if name in _ALONE:
                return _ALONE[name]
            self._mpi.Init()
            atexit.register(self._mpi.Finalize)
            self._mpi.COMM_WORLD = self._world
        return getattr(self._world, name)


class _Loader(importlib.abc.Loader):
    """Loads the module as its own loader does, without starting MPI."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        sys.modules["mpi4py"].rc.initialize = sys.modules["mpi4py"].rc.finalize = False
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module._rushlight_world = module.COMM_WORLD
        module.COMM_WORLD = _World(module)


def spec_of_mpi(asking: Any, path: Sequence[str] | None, target: Any) -> ModuleSpec | None:
    """How to load mpi4py.MPI; None: as always.

    Args:
        asking: the finder that asks, among the others that find modules.
        path, target: see importlib.abc.MetaPathFinder.find_spec.
    """
    if of_mpi() is not None:
        return None
    for finder in sys.meta_path:
        spec = None if finder is asking else finder.find_spec("mpi4py.MPI", path, target)
        if spec is not None:
            spec.loader = _Loader(spec.loader)
            return spec
    return None


def used_by_groups(mpi: ModuleType) -> None:
    """COMM_WORLD is the plain one from now on: MPI runs."""
    mpi.COMM_WORLD = getattr(mpi, "_rushlight_world", mpi.COMM_WORLD)


__all__ = ["spec_of_mpi", "used_by_groups"]
