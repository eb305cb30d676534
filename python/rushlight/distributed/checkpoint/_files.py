"""The files of a checkpoint: one for each process that has written, and a list of what is where.

`.metadata.json` names for each tensor its shape, its dtype and its pieces: file, first indices,
sizes. It is written last, so a folder with it is whole. What is no tensor is in the file of rank 0.
"""

from __future__ import annotations

import concurrent.futures
import json
import os

import rushlight
from rushlight._set_module import set_module
from rushlight.distributed import _group, _objects as objects
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._redistribute import sizes_of_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup

_METADATA = ".metadata.json"


class CheckpointException(Exception):
    """A checkpoint cannot be written or read; `failures` has the errors by rank."""

    def __init__(self, msg: Any, failures: Any) -> None:
        super().__init__(f"{msg}: {failures}")
        self.failures = failures


class FileSystemWriter:
    """Where to write: a folder that all processes see.

    Args:
        path: the folder; made if it is not there.
        overwrite: replace the checkpoint that is there.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        super().__init__()
        self.path, self.overwrite = os.fspath(path), overwrite


class FileSystemReader:
    """Where to read from: the folder of a FileSystemWriter."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self.path: Any = os.fspath(path)

    def read_metadata(self) -> Any:
        """What the checkpoint has: by key, its kind, and of tensors shape, dtype and pieces."""
        path = os.path.join(self.path, _METADATA)
        if not os.path.exists(path):
            raise CheckpointException("load", {0: f"{self.path} has no whole checkpoint"})
        with open(path) as file:
            return json.load(file)


def _folder(name, checkpoint_id, storage, process_group, no_dist, planner):
    if planner is not None:
        raise NotImplementedError(f"{name}: planner is not supported")
    path = storage.path if storage is not None else checkpoint_id
    if path is None:
        raise RuntimeError(f"{name}: `checkpoint_id` must be specified")
    alone = no_dist or not _group.is_initialized()
    return os.fspath(path), None if alone else _group.resolve(process_group)


def _flat(thing, prefix=()):
    """(path, value) of everything in nested dicts and lists."""
    if isinstance(thing, dict) and thing:
        for key, value in thing.items():
            yield from _flat(value, (*prefix, key))
    elif isinstance(thing, list) and any(isinstance(v, (dict, rushlight.Tensor)) for v in thing):
        for i, value in enumerate(thing):
            yield from _flat(value, (*prefix, i))
    else:
        yield prefix, thing


def _stateful(state_dict):
    return {
        key: value.state_dict()
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
        else value
        for key, value in state_dict.items()
    }


def _name(path):
    return ".".join(map(str, path))


def _piece(value):
    """(first indices, local tensor) of what this process has; None where it is a copy."""
    if not isinstance(value, DTensor):
        return [0] * value.dim(), value.detach()
    first, is_copy = _place(value)
    local = value.to_local().detach()
    return None if is_copy else (first, local)


def _place(value):
    """First indices of this process's part of a DTensor, and whether others write the same."""
    first, is_copy = [0] * len(value.shape), False
    lengths = list(value.shape)
    for i, placement in enumerate(value.placements):
        group = value.device_mesh.get_group(i)
        if placement.is_shard():
            sizes = sizes_of_parts(lengths[placement.dim], group.size())
            first[placement.dim] += sum(sizes[: group.rank()])
            lengths[placement.dim] = sizes[group.rank()]
        elif placement.is_replicate():
            is_copy = is_copy or group.rank() != 0
        else:
            raise ValueError("checkpoint: a tensor with Partial cannot be saved: redistribute it")
    return first, is_copy


def _everywhere(group, problem, name):
    """Raise in all processes if there is a problem in one."""
    problems = [problem]
    if group is not None:
        problems = [None] * group.size()
        objects.all_gather_object(problems, problem, group)
    failures = {rank: text for rank, text in enumerate(problems) if text is not None}
    if failures:
        raise CheckpointException(name, failures)


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Write a checkpoint; all processes call it with the same keys.

    Of a DTensor each process writes its part; plain tensors, the same in all, are written by one
    process each in turn.

    Args:
        state_dict: nested dicts and lists of tensors and of what `save` of a file takes; values
            with `state_dict` and `load_state_dict` are asked for theirs.
        checkpoint_id: the folder.
        storage_writer: a FileSystemWriter instead.
        planner: None.
        process_group: the processes; all by default.
        no_dist: this process alone writes all.

    Raises:
        CheckpointException: in all processes, if one fails.
    """
    path, group = _folder("save", checkpoint_id, storage_writer, process_group, no_dist, planner)
    overwrite = storage_writer is None or storage_writer.overwrite
    _write(path, _plan(state_dict, group), group, overwrite)


def _plan(state_dict, group, copy=False):
    """What this process writes: tensors by key with their place, and what is no tensor."""
    rank, size = (0, 1) if group is None else (group.rank(), group.size())
    tensors, rest, described = {}, {}, {}
    for number, (at, value) in enumerate(_flat(_stateful(state_dict))):
        key = _name(at)
        if not isinstance(value, rushlight.Tensor):
            if rank == 0:
                rest[key] = value
            described[key] = {"kind": "object"}
            continue
        described[key] = {
            "kind": "tensor",
            "shape": list(value.shape),
            "dtype": str(value.dtype).partition(".")[2],
        }
        if not isinstance(value, DTensor) and number % size != rank:
            continue
        piece = _piece(value)
        if piece is not None:
            first, local = piece
            tensors[key] = (first, local.clone() if copy else local.contiguous())
    return tensors, rest, described


def _write(path, plan, group, overwrite):
    tensors, rest, described = plan
    rank = 0 if group is None else group.rank()
    problem = None
    try:
        os.makedirs(path, exist_ok=True)
        if os.path.exists(os.path.join(path, _METADATA)) and not overwrite:
            raise FileExistsError(f"{path} has a checkpoint already")
    except OSError as error:
        problem = str(error)
    _everywhere(group, problem, "save")
    name = f"__{rank}_0.distcp"
    try:
        if rank == 0 and os.path.exists(os.path.join(path, _METADATA)):
            os.unlink(os.path.join(path, _METADATA))
        contents = {"tensors": {key: local for key, (_, local) in tensors.items()}, "rest": rest}
        rushlight.save(contents, os.path.join(path, name))
    except (OSError, RuntimeError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    pieces = {
        key: {"file": name, "first": first, "sizes": list(local.shape)}
        for key, (first, local) in tensors.items()
    }
    _everywhere(group, problem, "save")
    every = [pieces]
    if group is not None:
        every = [None] * group.size()
        objects.all_gather_object(every, pieces, group)
    if rank == 0:
        for key, about in described.items():
            if about["kind"] == "tensor":
                about["pieces"] = [one[key] for one in every if key in one]
        with open(os.path.join(path, _METADATA + ".new"), "w") as file:
            json.dump(described, file)
        os.replace(os.path.join(path, _METADATA + ".new"), os.path.join(path, _METADATA))
    _everywhere(group, None, "save")  # nobody goes on before the checkpoint is whole


_writer = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="rushlight checkpoint")


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: ProcessGroup | None = None,
) -> Any:
    """Copy what is to be written, and write it while the program goes on; see save.

    The thread that writes needs a group of its own: its collectives must not mix with others.

    Args:
        process_group: such a group, made by `new_group()`; required with several processes.
        others: see save.

    Returns:
        A Future of concurrent.futures.
    """
    path, group = _folder(
        "async_save", checkpoint_id, storage_writer, process_group, False, planner
    )
    if group is not None and group.size() > 1 and process_group is None:
        raise ValueError(
            "async_save: give a process_group that nothing else uses, from new_group()"
        )
    overwrite = storage_writer is None or storage_writer.overwrite
    return _writer.submit(_write, path, _plan(state_dict, group, copy=True), group, overwrite)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into the tensors of a state_dict, in place.

    The number of processes, and how tensors lie in them, may differ from those that have written.

    Args:
        state_dict: has the keys that are wanted; what is no tensor is replaced. Values with
            `state_dict` and `load_state_dict` get theirs.
        checkpoint_id: the folder.
        storage_reader: a FileSystemReader instead.
        planner: None.
        process_group: the processes; all by default.
        no_dist: this process reads by itself.

    Raises:
        CheckpointException: in all processes, if one fails: a key is missing, a shape differs.
    """
    path, group = _folder("load", checkpoint_id, storage_reader, process_group, no_dist, planner)
    problem = None
    try:
        _read(path, state_dict)
    except (CheckpointException, OSError, RuntimeError, KeyError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
    _everywhere(group, problem, "load")


def _read(path, state_dict):
    described = FileSystemReader(path).read_metadata()
    files = {}

    def contents(name):
        if name not in files:
            files[name] = rushlight.load(os.path.join(path, name))
        return files[name]

    asked = _stateful(state_dict)
    found = {}
    for at, value in _flat(asked):
        key = _name(at)
        if key not in described:
            raise RuntimeError(f"Missing key in checkpoint state_dict: {key}")
        if described[key]["kind"] == "object":
            found[at] = contents("__0_0.distcp")["rest"][key]
        elif isinstance(value, rushlight.Tensor):
            _fill(key, value, described[key], contents)
        else:
            raise ValueError(f"{key} is a tensor in the checkpoint, and a {type(value)} here")
    for at, value in found.items():
        holder = asked
        for part in at[:-1]:
            holder = holder[part]
        if at:
            holder[at[-1]] = value
    for key, value in state_dict.items():
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            value.load_state_dict(asked[key])
        elif not isinstance(value, rushlight.Tensor):
            state_dict[key] = asked[key]


def _fill(key, value, about, contents):
    """Copy what the pieces have of this process's part."""
    if list(value.shape) != about["shape"]:
        raise ValueError(
            f"Size mismatch between saved {about['shape']} and current: {list(value.shape)} for "
            f"{key}"
        )
    if isinstance(value, DTensor):
        first, _ = _place(value)
        local = value.to_local().detach()
    else:
        first, local = [0] * value.dim(), value.detach()
    with rushlight.no_grad():
        for piece in about["pieces"]:
            here, there = [], []
            for begin, length, p_begin, p_length in zip(
                first, local.shape, piece["first"], piece["sizes"]
            ):
                low, high = max(begin, p_begin), min(begin + length, p_begin + p_length)
                here.append(slice(low - begin, max(low, high) - begin))
                there.append(slice(low - p_begin, max(low, high) - p_begin))
            if all(part.stop > part.start for part in here):
                saved = contents(piece["file"])["tensors"][key]
                local[tuple(here)] = saved[tuple(there)].to(local.dtype)


set_module(
    "rushlight.distributed.checkpoint",
    CheckpointException,
    FileSystemReader,
    FileSystemWriter,
    async_save,
    load,
    save,
)
