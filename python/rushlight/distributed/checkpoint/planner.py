"""Plans: what each process writes and reads, and who makes them."""

from __future__ import annotations

import abc
import enum
import math
from dataclasses import dataclass

from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import io
    from typing import Any

    from rushlight import Size, Tensor


class WriteItemType(enum.Enum):
    """A whole tensor, a piece of one, or what is no tensor."""

    TENSOR = enum.auto()
    SHARD = enum.auto()
    BYTE_IO = enum.auto()


class LoadItemType(enum.Enum):
    """A tensor, or what is none."""

    TENSOR = enum.auto()
    BYTE_IO = enum.auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many bytes are to be written."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Which piece of a tensor of which properties and sizes is to be written."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """One thing to write: `bytes_io_data` or `tensor_data` describes it."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of the whole tensor; None for what is no tensor."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """One thing to read: a box of `lengths` from a stored piece into a local one."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What a process writes; one that is not `usable` means the plan of the time before."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What a process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what each process writes. Derive from DefaultSavePlanner to change a step.

    The steps come in this order: `set_up_planner` and `create_local_plan` in all processes,
    `create_global_plan` in the coordinator, `finish_plan` in all, and `resolve_data` for each item,
    by any thread.
    """

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Keep what is to be written."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process could write."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """What each process is to write, from what all could, and what the checkpoint has."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take what the coordinator has made of this process's plan."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor, or the bytes, of an item."""


class LoadPlanner(abc.ABC):
    """Decides what each process reads. Derive from DefaultLoadPlanner to change a step.

    The steps come in the order of SavePlanner's; then for each item `load_bytes`, or
    `resolve_tensor` for where its elements go, and `commit_tensor` when they are there.
    """

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Keep what is to be read."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this process reads."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What each process is to read, from what all would."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take what the coordinator has made of this process's plan."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take what is no tensor."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where the bytes of an item go, for storages that write them by themselves."""
        raise NotImplementedError(
            f"{type(self).__name__}.resolve_bytes is not there, for {read_item.dest_index.fqn}"
        )

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Where the elements of an item go: a view of the tensor, or one that is copied later."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """The elements are there, in the tensor of `resolve_tensor`."""


__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]
