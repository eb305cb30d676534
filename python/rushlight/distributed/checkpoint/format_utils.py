"""From checkpoints of folders to files of `rushlight.save`, and back."""

from __future__ import annotations

import os

import rushlight
from rushlight.distributed import _collectives as collectives, _group
from rushlight.distributed.checkpoint import _pieces as pieces
from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict
from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner as _EmptyStateDictLoadPlanner,
)
from rushlight.distributed.checkpoint.filesystem import give_tensor
from rushlight.distributed.checkpoint.metadata import (
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from rushlight.distributed.checkpoint.state_dict_saver import save
from rushlight.distributed.checkpoint.storage import StorageReader
from rushlight.futures import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write what a checkpoint's folder has into one file.

    Args:
        dcp_checkpoint_dir: the folder.
        torch_save_path: the file.
    """
    whole = _load_state_dict_from_keys(checkpoint_id=dcp_checkpoint_dir, no_dist=True)
    rushlight.save(whole, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write what a file has as a checkpoint's folder.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the folder.
    """
    save(rushlight.load(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Reads tensors by what the program has places for, from a storage that does not say what it
    has; for BroadcastingTorchSaveReader.
    """

    metadata: Metadata | None

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Keep where things go; see LoadPlanner."""
        super().set_up_planner(state_dict, metadata, is_coordinator)
        found = {}
        for name, value in self.state_dict.items():
            if not isinstance(value, rushlight.Tensor):
                raise RuntimeError(
                    f"Non-tensor value identified at {name}. At this time {type(self).__name__} "
                    "only supports loading Tensors."
                )
            found[name] = TensorStorageMetadata(
                TensorProperties.create_from_tensor(pieces.local_part(value)),
                rushlight.Size(value.shape), [pieces.chunk_of(value)],
            )  # fmt: skip
        self.metadata = Metadata(found)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `rushlight.save` in one process, which gives each tensor to the others; for
    DynamicMetaLoadPlanner.

    Args:
        checkpoint_id: the file.
        coordinator_rank: the process that reads.
    """

    checkpoint_id: str | os.PathLike[str] | None
    coordinator_rank: int

    def __init__(
        self, checkpoint_id: str | os.PathLike[str] | None = None, coordinator_rank: int = 0
    ) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Another file is to be read, if one is given."""
        if checkpoint_id:
            self.checkpoint_id = checkpoint_id

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Nothing: the planner knows."""
        return Metadata({})

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Check that the coordinator is the process that reads."""
        reads = _group.is_initialized() and _group.get_rank() == self.coordinator_rank
        if is_coordinator and _group.is_initialized() and not reads:
            raise AssertionError(
                f"BroadcastingTorchSaveReader: coordinator_rank {self.coordinator_rank} is not the "
                "coordinator of this load"
            )
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items of a plan and give them to the planner."""
        whole = None
        if self.is_coordinator:
            whole = rushlight.load(self.checkpoint_id)
            if planner.flatten_state_dict:
                whole = flatten_state_dict(whole)[0]
        items: dict[str, list[Any]] = {}
        for item in plan.items:
            items.setdefault(item.storage_index.fqn, []).append(item)
        # Also tensors of which this process has nothing: the others wait for it.
        for name, stored in planner.metadata.state_dict_metadata.items():
            if whole is None:
                tensor = rushlight.empty(stored.size, dtype=stored.properties.dtype)
            else:
                tensor = whole[name].to(stored.properties.dtype).contiguous()
            if _group.is_initialized():
                collectives.broadcast(tensor, self.coordinator_rank)
            (chunk,) = stored.chunks
            for item in items.get(name, ()):
                give_tensor(item, pieces.narrowed(tensor, chunk.offsets, chunk.sizes), planner)
        done = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Is it a file?"""
        return os.path.isfile(checkpoint_id)


__all__ = [
    "BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save",
    "torch_save_to_dcp",
]  # fmt: skip
