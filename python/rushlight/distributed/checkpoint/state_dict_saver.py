"""Writing checkpoints."""

from __future__ import annotations

import concurrent.futures
import enum
import functools
import inspect
import os
from dataclasses import dataclass

from rushlight._ignored import warn_program as _warn_program
from rushlight.distributed import _group
from rushlight.distributed.checkpoint._together import Together
from rushlight.distributed.checkpoint.default_planner import DefaultSavePlanner
from rushlight.distributed.checkpoint.filesystem import FileSystemWriter
from rushlight.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager
from rushlight.distributed.checkpoint.stateful import Stateful

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed import ProcessGroup
    from rushlight.distributed.checkpoint.metadata import Metadata
    from rushlight.distributed.checkpoint.planner import SavePlan, SavePlanner
    from rushlight.distributed.checkpoint.storage import StorageWriter


class AsyncCheckpointerType(enum.Enum):
    """Who writes while the program goes on."""

    THREAD = "thread"
    PROCESS = "process"


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The older name of `save`, which it warns about.

    Args:
        coordinator_rank: the member that plans for all.
        others: see save. Values with `state_dict` are not asked for theirs.
    """
    _warn_program(
        "`save_state_dict` is deprecated and will be removed in future versions. Please use `save` "
        "instead.",
        FutureWarning,
    )
    storage_writer.reset()
    processes = Together(process_group, no_dist, coordinator_rank)
    return _save(state_dict, storage_writer, planner, processes, True)


def _storage_second(name: str) -> Any:
    """A decorator of functions that are also called with the argument `name` in the second place,
    as older programs do; they warn.
    """

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if len(args) == 2:
                _warn_program(
                    f"checkpoint.{function.__name__}: the second argument is named: write "
                    f"{name}=..."
                )
                args, kwargs = args[:1], {name: args[1], **kwargs}
            return function(*args, **kwargs)

        return wrapper

    return decorator


@_storage_second("storage_writer")
def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a checkpoint; all processes call it with the same keys.

    Of a DTensor each process writes its part; plain tensors, the same in all, are written by one
    process each. torch reads the files, and so does any number of processes.

    Args:
        state_dict: nested dicts and lists of tensors and of what `rushlight.save` takes; values
            with `state_dict` and `load_state_dict` are asked for theirs.
        checkpoint_id: the folder.
        storage_writer: where to write; a FileSystemWriter of `checkpoint_id` by default.
        planner: who writes what; a DefaultSavePlanner by default.
        process_group: the processes; all by default.
        no_dist: this process alone writes what it has.
        use_collectives: False: each process writes its own metadata too, and nobody waits.

    Returns:
        The Metadata of the checkpoint.

    Raises:
        CheckpointException: in all processes, if one fails.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> metadata = save({"x": rushlight.ones(3)}, checkpoint_id=folder, no_dist=True)
        >>> metadata.state_dict_metadata["x"].size
        torch.Size([3])
    """
    alone = no_dist or not _group.is_initialized()
    writer = storage_for(storage_writer, checkpoint_id, "save", FileSystemWriter)
    processes = Together(process_group, alone)
    return _save(states_of(state_dict), writer, planner, processes, use_collectives)


def storage_for(
    storage: Any, checkpoint_id: str | os.PathLike[str] | None, name: str, kind: Callable[..., Any]
) -> Any:
    """The storage that is given, for the checkpoint that is named, or one of a folder."""
    if storage is not None:
        if checkpoint_id is not None and not storage.validate_checkpoint_id(checkpoint_id):
            raise RuntimeError(
                f"{name}: {type(storage).__name__} cannot have a checkpoint {checkpoint_id!r}"
            )
        storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError(f"{name}: `checkpoint_id` must be specified without a storage")
    if not kind.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(f"{name}: {checkpoint_id!r} is no path of a folder; give a storage")
    return kind(checkpoint_id)


def states_of(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The dict with the states of what has one."""
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


def _takes(function, name):
    parameters = inspect.signature(function).parameters
    return name in parameters


def _save(state_dict, writer, planner, processes, use_collectives):
    planner = DefaultSavePlanner() if planner is None else planner
    made: dict[str, Any] = {}

    def local_plan() -> SavePlan:
        meta = (writer.storage_meta(),) if _takes(planner.set_up_planner, "storage_meta") else ()
        planner.set_up_planner(
            state_dict=state_dict,
            **({"storage_meta": meta[0]} if meta else {}),
            is_coordinator=processes.is_coordinator,
        )
        options = {}
        if _takes(writer.set_up_storage_writer, "kwargs"):
            options = {"rank": processes.rank, "use_collectives": use_collectives}
        writer.set_up_storage_writer(processes.is_coordinator, **options)
        return writer.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans: list[SavePlan]) -> list[SavePlan]:
        plans, made["metadata"] = planner.create_global_plan(plans)
        return writer.prepare_global_plan(plans)

    def write(plan: SavePlan) -> list[Any]:
        return writer.write_data(planner.finish_plan(plan), planner).wait()

    def finish(results: list[list[Any]]) -> Metadata:
        writer.finish(made["metadata"], results)
        return made["metadata"]

    if not use_collectives:
        plan = global_plan([local_plan()])[0]
        metadata = finish([write(plan)])
    else:
        plan = processes.planned("plan", local_plan, global_plan)
        metadata = processes.concluded("write", lambda: write(plan), finish)
    processes.meet()
    return metadata


_writing = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="rushlight checkpoint")
_own_groups: dict[int, ProcessGroup] = {}  # by the number of the world


def _group_of_writing():
    """A group of all processes that nothing else uses: collectives of two threads must not mix."""
    generation = _group.groups.generation
    if generation not in _own_groups:
        _own_groups.clear()
        _own_groups[generation] = _group.new_group(group_desc="async_save")
    return _own_groups[generation]


@dataclass
class AsyncSaveResponse:
    """What `async_save` returns where the copy is taken later too: a Future of each."""

    staging_completion: concurrent.futures.Future[None]
    upload_completion: concurrent.futures.Future[Metadata]


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> concurrent.futures.Future[Metadata] | AsyncSaveResponse:
    """Copy what is to be written, and write it while the program goes on; see save.

    Args:
        process_group: a group that nothing else uses; by default one is made, so all processes
            call it.
        async_checkpointer_type: THREAD; a process of its own would be in no world of MPI.
        async_stager: takes the copy; by default the storage, if it can, or one that waits for it.
        others: see save.

    Returns:
        A Future of the Metadata; an AsyncSaveResponse where the stager gives a Future.

    Example:
        >>> import tempfile
        >>> x = rushlight.ones(3)
        >>> future = async_save({"x": x}, checkpoint_id=tempfile.mkdtemp())
        >>> _ = x.zero_()
        >>> list(future.result().state_dict_metadata)
        ['x']
    """
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError(
            f"async_save: {async_checkpointer_type}: another process would be in no world of MPI"
        )
    alone = no_dist or not _group.is_initialized()
    group = process_group
    if not alone and group is None and _group.get_world_size() > 1:
        group = _group_of_writing()
    stager = async_stager
    if stager is None:
        is_stager = isinstance(storage_writer, AsyncStager)
        stager = storage_writer if is_stager else BlockingAsyncStager()
    staged = stager.stage(states_of(state_dict))
    is_later = isinstance(staged, concurrent.futures.Future)

    def write():
        return save(
            staged.result() if is_later else staged,
            checkpoint_id=checkpoint_id,
            storage_writer=storage_writer,
            planner=planner,
            process_group=group,
            no_dist=alone,
            use_collectives=use_collectives,
        )

    written = _writing.submit(write)
    if is_later:
        return AsyncSaveResponse(_without_value(staged), written)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return written


def _without_value(future):
    """A Future of None that ends as another does."""
    made: concurrent.futures.Future[None] = concurrent.futures.Future()

    def end(done):
        error = done.exception()
        if error is not None:
            made.set_exception(error)
        else:
            made.set_result(None)

    future.add_done_callback(end)
    return made


__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]
