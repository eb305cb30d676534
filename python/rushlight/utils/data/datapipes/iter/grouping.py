"""Steps that make groups of elements, take them apart, or share them out."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe[Any]):
    """Of the elements, those of one of several readers.

    A DataLoader's worker takes its part by itself.
    """

    def __init__(self, source_datapipe: Iterable[Any], sharding_group_filter: Any = None) -> None:
        super().__init__()
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self, num_of_instances: Any, instance_id: Any, sharding_group: Any = None
    ) -> None:
        """Say how many readers there are, and which one this is."""
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than num_of_instances"
                f"({num_of_instances})"
            )
        if self.sharding_group_filter is None or sharding_group == self.sharding_group_filter:
            self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        for number, element in enumerate(self.source_datapipe):
            if number % self.num_of_instances == self.instance_id:
                yield element

    def __len__(self) -> int:
        size, rest = divmod(len(self.source_datapipe), self.num_of_instances)
        return size + (self.instance_id < rest)


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[Any]):
    """Batches of elements.

    Args:
        datapipe: the elements.
        batch_size: how many each.
        drop_last: a last one with fewer is left out.
        wrapper_class: the class of batches.
    """

    def __init__(
        self,
        datapipe: Iterable[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Any = DataChunk,
    ) -> None:
        super().__init__()
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch = []
        for element in self.datapipe:
            batch.append(element)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        size = len(self.datapipe)
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The elements of batches.

    Args:
        datapipe: the batches.
        unbatch_level: how deep they are taken apart; -1 for all the way.
    """

    def __init__(self, datapipe: Iterable[Any], unbatch_level: int = 1) -> None:
        super().__init__()
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _parts(self, element, level):
        is_batch = isinstance(element, (list, DataChunk))
        if level == 0 or (level < 0 and not is_batch):
            yield element
        elif is_batch:
            for part in element:
                yield from self._parts(part, level - 1 if level > 0 else level)
        else:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            yield from self._parts(element, self.unbatch_level)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Groups of elements with the same key.

    Args:
        datapipe: the elements.
        group_key_fn: element -> its key.
        keep_key: pairs of key and group.
        buffer_size: how many elements may wait for their groups to be full.
        group_size: how many make a group full; None waits for all.
        guaranteed_group_size: with fewer, a group is not given where the buffer is full.
        drop_remaining: groups with fewer are left out there; else they are an error. At the end
            all groups are given.
    """

    def __init__(
        self,
        datapipe: Iterable[Any],
        group_key_fn: Any,
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: Any = None,
        guaranteed_group_size: Any = None,
        drop_remaining: bool = False,
    ) -> None:
        super().__init__()
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.buffer_size, self.group_size = buffer_size, group_size
        self.guaranteed_group_size: Any = guaranteed_group_size or group_size
        self.drop_remaining: bool = drop_remaining

    def _made(self, key, group):
        group = DataChunk(group)
        return (key, group) if self.keep_key else group

    def __iter__(self) -> Iterator[Any]:
        groups, waiting = {}, 0
        for element in self.datapipe:
            key = self.group_key_fn(element)
            groups.setdefault(key, []).append(element)
            waiting += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                waiting -= self.group_size
                yield self._made(key, groups.pop(key))
            if waiting == self.buffer_size:
                key = max(groups, key=lambda k: len(groups[k]))
                group = groups.pop(key)
                waiting -= len(group)
                least = self.guaranteed_group_size
                if least is None or len(group) >= least:
                    yield self._made(key, group)
                elif not self.drop_remaining:
                    raise RuntimeError(
                        f"Failed to group items: the buffer of {self.buffer_size} is full and the "
                        f"largest group has {len(group)} of {least}"
                    )
        for key, group in groups.items():
            yield self._made(key, group)
