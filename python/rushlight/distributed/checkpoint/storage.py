"""Storages: where checkpoints are written to and read from."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from rushlight.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    from rushlight.futures import Future


@dataclass(frozen=True)
class WriteResult:
    """What has been written: its index, its size, and where it is."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes a checkpoint.

    All processes call `reset`, `set_up_storage_writer` and `prepare_local_plan`, the coordinator
    `prepare_global_plan`, all `write_data`, and the coordinator `finish`.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new checkpoint begins, with this name if one is given."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Learn whether this is the coordinator."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Add what the storage has to say to this process's plan, best in `storage_data`."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Add what the storage has to say to the plans of all processes."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the items of a plan, whose data `planner.resolve_data` gives."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata: the checkpoint is whole from then on."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Can this storage have a checkpoint of that name?"""

    def storage_meta(self) -> StorageMeta | None:
        """Which checkpoint it is, for the planner."""
        return None


class StorageReader(abc.ABC):
    """Reads a checkpoint.

    All processes call `reset`, `read_metadata`, `set_up_storage_reader` and `prepare_local_plan`,
    the coordinator `prepare_global_plan`, and all `read_data`.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Another checkpoint is to be read, of this name if one is given."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint has."""

    @abc.abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Learn what the checkpoint has, and whether this is the coordinator."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Add what the storage has to say to this process's plan."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Add what the storage has to say to the plans of all processes."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items of a plan and give them to the planner."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Can this storage have a checkpoint of that name?"""


__all__ = ["StorageReader", "StorageWriter", "WriteResult"]
