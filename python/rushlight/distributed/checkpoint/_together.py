"""Steps of several processes, of which all fail if one does."""

from __future__ import annotations

import pickle
import traceback

from rushlight.distributed import _collectives as collectives, _group, _objects as objects
from rushlight.distributed.checkpoint.api import CheckpointException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed import ProcessGroup


class _Failure:
    """An exception that travels to the other processes."""

    def __init__(self, error: Exception) -> None:
        where = "".join(traceback.format_tb(error.__traceback__))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # of any class, with arguments of any kind
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self.error, self.where = error, where


def _tried(function, *args):
    try:
        return function(*args)
    except Exception as error:  # all processes raise it
        return _Failure(error)


class Together:
    """The processes that write or read a checkpoint; one alone without a group.

    Args:
        group: the processes; all by default.
        alone: this process by itself.
        coordinator_rank: the member that plans for all.
    """

    def __init__(self, group: ProcessGroup | None, alone: bool, coordinator_rank: int = 0) -> None:
        self.group: ProcessGroup | None = None if alone else _group.resolve(group)
        self.rank: int = 0 if self.group is None else self.group.rank()
        self.coordinator = coordinator_rank
        self.is_coordinator: bool = self.group is None or self.rank == coordinator_rank

    def _gathered(self, thing):
        if self.group is None:
            return [thing]
        found = [None] * self.group.size()
        objects.all_gather_object(found, thing, self.group)
        return found

    def _checked(self, name, results):
        failures = {
            rank: (one.error, one.where)
            for rank, one in enumerate(results)
            if isinstance(one, _Failure)
        }
        if failures:
            raise CheckpointException(name, failures)
        return results

    def everywhere(self, name: str, function: Callable[[], Any]) -> list[Any]:
        """What a function gives in all processes."""
        return self._checked(name, self._gathered(_tried(function)))

    def planned(
        self,
        name: str,
        function: Callable[[], Any],
        of_all: Callable[[list[Any]], list[Any]],
    ) -> Any:
        """This process's part of what the coordinator makes of the results of all."""
        results = self.everywhere(name, function)
        made = self._from_coordinator(name, lambda: of_all(results))
        return made[self.rank]

    def concluded(
        self, name: str, function: Callable[[], Any], of_all: Callable[[list[Any]], Any]
    ) -> Any:
        """What the coordinator makes of the results of all."""
        results = self.everywhere(name, function)
        return self._from_coordinator(name, lambda: of_all(results))

    def _from_coordinator(self, name, function):
        made = [_tried(function) if self.is_coordinator else None]
        if self.group is not None:
            objects.broadcast_object_list(made, group=self.group, group_src=self.coordinator)
        if isinstance(made[0], _Failure):
            raise CheckpointException(name, {self.coordinator: (made[0].error, made[0].where)})
        return made[0]

    def meet(self) -> None:
        """Wait for the others."""
        if self.group is not None:
            collectives.barrier(self.group)
