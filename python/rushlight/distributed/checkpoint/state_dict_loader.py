"""Reading checkpoints."""

from __future__ import annotations

import inspect
import os

from rushlight._ignored import warn_program as _warn_program
from rushlight.distributed import _group
from rushlight.distributed.checkpoint._together import Together
from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from rushlight.distributed.checkpoint.filesystem import FileSystemReader
from rushlight.distributed.checkpoint.state_dict_saver import (
    _storage_second,
    states_of,
    storage_for,
)
from rushlight.distributed.checkpoint.stateful import Stateful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup
    from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner
    from rushlight.distributed.checkpoint.storage import StorageReader


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The older name of `load`, which it warns about.

    Args:
        coordinator_rank: the member that plans for all.
        others: see load. Values with `load_state_dict` do not get theirs.
    """
    _warn_program(
        "`load_state_dict` is deprecated and will be removed in future versions. Please use `load` "
        "instead.",
        FutureWarning,
    )
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """`load_state_dict` by the name that libraries call, which warns of nothing."""
    storage_reader.reset()
    load_into(
        state_dict, storage_reader, planner, Together(process_group, no_dist, coordinator_rank)
    )


@_storage_second("storage_reader")
def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> Any:
    """Read a checkpoint into the tensors of a state_dict, in place.

    The number of processes, and how tensors lie in them, may differ from those that have written;
    torch's checkpoints are read too. Nothing in a file is run.

    Args:
        state_dict: has the keys that are wanted; what is no tensor is replaced. Values with
            `state_dict` and `load_state_dict` get theirs.
        checkpoint_id: the folder.
        storage_reader: where to read; a FileSystemReader of `checkpoint_id` by default.
        planner: who reads what; a DefaultLoadPlanner by default.
        process_group: the processes; all by default.
        no_dist: this process reads by itself.

    Raises:
        CheckpointException: in all processes, if one fails: a key is missing, a shape differs.
    """
    reader = storage_for(storage_reader, checkpoint_id, "load", FileSystemReader)
    states = states_of(state_dict)
    alone = no_dist or not _group.is_initialized()
    load_into(states, reader, planner, Together(process_group, alone))
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def load_into(
    state_dict: dict[str, Any],
    reader: StorageReader,
    planner: LoadPlanner | None,
    processes: Together,
) -> None:
    """Read what a dict has keys for; see load."""
    planner = DefaultLoadPlanner() if planner is None else planner

    def local_plan() -> LoadPlan:
        metadata, has_own = _metadata(reader, processes.rank)
        planner.set_up_planner(state_dict, metadata, processes.is_coordinator)
        options = {}
        if "kwargs" in inspect.signature(reader.set_up_storage_reader).parameters:
            options = {"rank": processes.rank, "use_collectives": not has_own}
        reader.set_up_storage_reader(metadata, processes.is_coordinator, **options)
        return reader.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    def read() -> None:
        reader.read_data(planner.finish_plan(plan), planner).wait()

    plan = processes.planned("plan", local_plan, global_plan)
    processes.everywhere("read", read)


def _metadata(reader, rank):
    """The metadata of all processes, or else of this one, and whether it is the latter."""
    try:
        return reader.read_metadata(), False
    except FileNotFoundError:
        if "kwargs" not in inspect.signature(reader.read_metadata).parameters:
            raise
        try:
            return reader.read_metadata(rank=rank), True
        except FileNotFoundError:
            pass  # the first error says what is missing
        raise


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> dict[str, Any]:
    """A checkpoint, or what is under some keys, as a new dict of whole tensors; `no_dist`: in this
    process alone.
    """
    reader = storage_for(storage_reader, checkpoint_id, "load", FileSystemReader)
    found: dict[str, Any] = {}
    keys = {keys} if isinstance(keys, str) else keys
    processes = Together(process_group, no_dist or not _group.is_initialized())
    load_into(found, reader, _EmptyStateDictLoadPlanner(keys), processes)
    return found


__all__ = ["load", "load_state_dict"]
