"""The planners of `save` and `load`."""

from __future__ import annotations

import dataclasses
import io

import rushlight
from rushlight.distributed.checkpoint import _pieces as pieces
from rushlight.distributed.checkpoint._nested_dict import (
    flatten_state_dict,
    path_in_file,
    set_element,
)
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor


@dataclasses.dataclass
class _Cache:
    """The plans of the last checkpoint of planners of one class."""

    local: SavePlan | None = None
    final: SavePlan | None = None
    all_local: list[SavePlan] | None = None
    metadata: Metadata | None = None


class DefaultSavePlanner(SavePlanner):
    """Each process writes its parts of DTensors; what several have, one of them writes.

    Args:
        flatten_state_dict: nested dicts and lists become keys "a.0.b".
        flatten_sharded_tensors: accepted: it is about ShardedTensor, and DTensors are flat.
        dedup_replicated_tensors: None; it has no effect in torch either.
        dedup_save_to_lowest_rank: what several have is written by the first of them, not by the
            one that has the least to write.
        enable_plan_caching: a process whose plan is that of the last checkpoint does not send it.

    Example:
        >>> import tempfile
        >>> import rushlight.distributed.checkpoint as dcp
        >>> folder = tempfile.mkdtemp()
        >>> metadata = dcp.save({"x": rushlight.ones(2)}, checkpoint_id=folder,
        ...                     planner=DefaultSavePlanner(), no_dist=True)
        >>> list(metadata.state_dict_metadata)
        ['x']
    """

    _caches: dict[str, _Cache] = {}
    state_dict: dict[str, Any]
    is_coordinator: bool
    plan: SavePlan
    metadata: Metadata
    global_plan: list[SavePlan]
    flatten_state_dict: bool
    flatten_sharded_tensors: bool
    dedup_save_to_lowest_rank: bool

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        if dedup_replicated_tensors is not None:
            raise NotImplementedError("DefaultSavePlanner: dedup_replicated_tensors: give None")
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: dict[str, tuple[str | int, ...]] = {}
        self._caching = enable_plan_caching

    @property
    def _cache(self):
        return DefaultSavePlanner._caches.setdefault(type(self).__qualname__, _Cache())

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Keep what is to be written; see SavePlanner."""
        if self.flatten_state_dict:
            flat, paths = flatten_state_dict(state_dict)
            self.mappings = {name: path_in_file(path, state_dict) for name, path in paths.items()}
            state_dict = flat
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        """What this process has; see SavePlanner."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        if self._caching and self._cache.local == plan:
            return SavePlan([], usable=False)
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Let one process write what several have; see SavePlanner."""
        if self._caching:
            if not any(plan.usable for plan in all_plans) and self._cache.metadata is not None:
                self.metadata = self._cache.metadata
                return [SavePlan([], usable=False) for _ in all_plans], self.metadata
            before = self._cache.all_local or all_plans
            all_plans = [new if new.usable else old for new, old in zip(all_plans, before)]
            self._cache.all_local = all_plans
        shared = dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(shared)
        if self.flatten_state_dict:
            merged = {k: v for plan in reversed(plans) for k, v in plan.planner_data.items()}
            metadata = dataclasses.replace(metadata, planner_data=merged)
        problems = pieces.problems_of(metadata, len(plans) > 1)
        if problems:
            raise ValueError(f"Failed to validate global plan: {'; '.join(problems)}")
        self.global_plan, self.metadata = plans, metadata
        if self._caching:
            self._cache.metadata = metadata
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the coordinator's plan; see SavePlanner."""
        if self._caching:
            if new_plan.usable:
                self._cache.local, self._cache.final = self.plan, new_plan
            new_plan = self._cache.final
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor, or the bytes, of an item; see SavePlanner."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value that an index names: of a tensor, this process's part."""
        return find(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is stored of a value: a tensor as it is, others as `rushlight.save` writes them."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        stream = io.BytesIO()
        rushlight.save(object, stream)
        return stream


def find(state_dict: dict[str, Any], index: MetadataIndex) -> Any:
    """What a process has of an object: of a tensor, its part."""
    if index.fqn not in state_dict:
        raise ValueError(f"checkpoint: the state has no FQN {index.fqn!r}")
    value = state_dict[index.fqn]
    if not isinstance(value, rushlight.Tensor):
        if index.offset is not None:
            raise ValueError(
                f"checkpoint: {index.fqn} is no DTensor, ShardedTensor or tensor: no piece of it "
                f"begins at {tuple(index.offset)}"
            )
        return value
    if index.offset is not None and index.offset != pieces.chunk_of(value).offsets:
        raise ValueError(f"checkpoint: no piece of {index.fqn} begins at {tuple(index.offset)}")
    return pieces.local_part(value)


class DefaultLoadPlanner(LoadPlanner):
    """Each process reads what it has a place for, from whichever pieces were written.

    Args:
        flatten_state_dict: as the planner that has written.
        flatten_sharded_tensors: accepted: it is about ShardedTensor, and DTensors are flat.
        allow_partial_load: leave keys that are not in the checkpoint as they are.
    """

    original_state_dict: dict[str, Any]
    state_dict: dict[str, Any]
    metadata: Metadata | None
    is_coordinator: bool
    flatten_state_dict: bool
    flatten_sharded_tensors: bool
    allow_partial_load: bool

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict = {}
        self.mappings: dict[str, tuple[Any, ...]] = {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Keep where things go; see LoadPlanner. Tensors on the meta device become real ones."""
        self.original_state_dict = state_dict
        for name, path in flatten_state_dict(state_dict)[1].items():
            value = state_dict
            for part in path:
                value = value[part]
            if isinstance(value, rushlight.Tensor) and value.is_meta:
                set_element(state_dict, path, _real(name, value))
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata = state_dict, metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """Read all keys; see LoadPlanner."""
        if self.metadata is None:
            raise ValueError("DefaultLoadPlanner: set_up_planner got no metadata")
        strict = not self.allow_partial_load
        return create_default_local_load_plan(self.state_dict, self.metadata, strict)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are; see LoadPlanner."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan as it is; see LoadPlanner."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put what is no tensor into its place, by `rushlight.load`; see LoadPlanner."""
        name, found = read_item.dest_index.fqn, rushlight.load(value)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)
        else:
            self.state_dict[name] = found

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """A view of where elements go; see LoadPlanner."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing: the elements were written into the view."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """This process's part of the tensor that an index names."""
        return find(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The box of a tensor that an item fills."""
        return pieces.narrowed(tensor, read_item.dest_offsets, read_item.lengths)


def _real(name, value):
    if isinstance(value, pieces.DTensor):
        raise NotImplementedError(f"load: {name} is a DTensor on the meta device: make it real")
    return rushlight.empty_like(value, device="cpu")


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Reads all that a checkpoint has, or some keys, into an empty dict."""

    def __init__(self, keys: Iterable[str] | None = None) -> None:
        super().__init__()
        self.keys = None if keys is None else set(keys)

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Make place for what the checkpoint has."""
        if state_dict:
            raise ValueError("checkpoint: expected an empty dict to read all into")
        for key, stored in metadata.state_dict_metadata.items():
            path = (metadata.planner_data or {}).get(key, (key,))
            starts = {".".join(map(str, path[:n])) for n in range(1, len(path) + 1)}
            if self.keys is not None and not self.keys & {key, *starts}:
                continue
            place = None
            if isinstance(stored, TensorStorageMetadata):
                place = rushlight.empty(stored.size, dtype=stored.properties.dtype)
            set_element(state_dict, path, place)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What a process reads.

    Raises:
        RuntimeError: a key is not in the checkpoint, and `strict`.
        ValueError: a tensor has other sizes there.
    """
    items = []
    for fqn, value in state_dict.items():
        stored = metadata.state_dict_metadata.get(fqn)
        if stored is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        if isinstance(stored, TensorStorageMetadata) and isinstance(value, rushlight.Tensor):
            if tuple(stored.size) != tuple(value.shape):
                raise ValueError(
                    f"Size mismatch between saved {stored.size} and current: {value.shape} for "
                    f"{fqn}"
                )
        items += pieces.read_items(fqn, stored, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are: reading needs no agreement."""
    return all_plans


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """All that a process has; who writes what several have is decided later."""
    return SavePlan([pieces.write_item(fqn, value) for fqn, value in state_dict.items()])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The plans, with the places of pieces in the metadata, and the metadata.

    Raises:
        ValueError: a plain tensor, or what is none, is in two plans.
    """
    stored: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            fqn = item.index.fqn
            if item.type is not WriteItemType.SHARD and fqn in stored:
                raise ValueError(f"checkpoint: {fqn} would be written twice")
            if item.type is WriteItemType.BYTE_IO:
                stored[fqn] = BytesStorageMetadata()
                items.append(item)
                continue
            data = item.tensor_data
            about = stored.setdefault(fqn, TensorStorageMetadata(data.properties, data.size, []))
            if rewrite_index_hints:
                index = dataclasses.replace(item.index, index=len(about.chunks))
                item = dataclasses.replace(item, index=index)
            items.append(item)
            about.chunks.append(data.chunk)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(stored)


def dedup_save_plans(
    all_plans: list[SavePlan], save_to_lowest_rank: bool = False
) -> list[SavePlan]:
    """Leave what several processes have to the one that writes least, or to the first."""
    owners: dict[MetadataIndex, list[int]] = {}
    items: dict[MetadataIndex, WriteItem] = {}
    for number, plan in enumerate(all_plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(number)
            items[item.index] = item
    loads, chosen = [0] * len(all_plans), {}
    for index, numbers in owners.items():
        best = min(numbers) if save_to_lowest_rank else min(numbers, key=loads.__getitem__)
        chosen[index] = best
        loads[best] += items[index].tensor_storage_size() or 1
    return [
        dataclasses.replace(plan, items=[i for i in plan.items if chosen[i.index] == number])
        for number, plan in enumerate(all_plans)
    ]


__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]
