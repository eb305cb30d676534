"""Pieces of tensors: which one a process has, and where pieces overlap."""

from __future__ import annotations

import math

import rushlight
from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor.placement_types import part_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed.checkpoint.metadata import Metadata


def chunk_of(tensor: Tensor) -> ChunkStorageMetadata:
    """The piece that this process has of a tensor: all of a plain one."""
    lengths, first = list(tensor.shape), [0] * len(tensor.shape)
    if isinstance(tensor, DTensor):
        if any(placement.is_partial() for placement in tensor.placements):
            raise ValueError("checkpoint: a tensor with Partial: redistribute it first")
        mesh = tensor.device_mesh
        lengths, first = part_at(
            tensor.shape, mesh.mesh.shape, mesh.get_coordinate(), tensor.placements
        )
    return ChunkStorageMetadata(rushlight.Size(first), rushlight.Size(lengths))


def local_part(tensor: Tensor) -> Tensor:
    """This process's part, sharing memory, without history."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def write_item(fqn: str, value: Any) -> WriteItem:
    """What to write of a value."""
    if not isinstance(value, rushlight.Tensor):
        return WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)
    chunk = chunk_of(value)
    kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
    properties = TensorProperties.create_from_tensor(local_part(value))
    data = TensorWriteData(chunk, properties, rushlight.Size(value.shape))
    return WriteItem(MetadataIndex(fqn, chunk.offsets), kind, tensor_data=data)


def read_items(fqn: str, stored: Any, value: Any) -> list[ReadItem]:
    """What to read of a stored object into a value."""
    if not isinstance(stored, TensorStorageMetadata):
        nothing, index = rushlight.Size([0]), MetadataIndex(fqn)
        return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
    if not isinstance(value, rushlight.Tensor):
        raise ValueError(f"{fqn} is a tensor in the checkpoint, and a {type(value)} here")
    return read_items_of_chunk(fqn, stored, chunk_of(value), 0)


def read_items_of_chunk(
    fqn: str, stored: TensorStorageMetadata, mine: ChunkStorageMetadata, place: int
) -> list[ReadItem]:
    """What to read of a stored tensor into a piece, the `place`-th that this process has."""
    items = []
    for number, chunk in enumerate(stored.chunks):
        box = overlap(mine, chunk)
        if box is None:
            continue
        low, lengths = box
        items.append(
            ReadItem(
                LoadItemType.TENSOR,
                MetadataIndex(fqn, mine.offsets, place),
                rushlight.Size(a - b for a, b in zip(low, mine.offsets)),
                MetadataIndex(fqn, chunk.offsets, number),
                rushlight.Size(a - b for a, b in zip(low, chunk.offsets)),
                rushlight.Size(lengths),
            )
        )
    return items


def overlap(
    first: ChunkStorageMetadata, second: ChunkStorageMetadata
) -> tuple[list[int], list[int]] | None:
    """First indices and lengths of what two pieces have in common; None if it is nothing."""
    low = [max(a, b) for a, b in zip(first.offsets, second.offsets)]
    ends = [
        min(a + n, b + m)
        for a, n, b, m in zip(first.offsets, first.sizes, second.offsets, second.sizes)
    ]
    lengths = [end - begin for begin, end in zip(low, ends)]
    return None if any(length <= 0 for length in lengths) else (low, lengths)


def narrowed(tensor: Tensor, offsets: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """A box of a tensor, sharing its memory."""
    for dim, (begin, length) in enumerate(zip(offsets, lengths)):
        if begin != 0 or length != tensor.size(dim):
            tensor = tensor.narrow(dim, begin, length)
    return tensor


def problems_of(metadata: Metadata, is_whole: bool) -> list[str]:
    """What is wrong with pieces: some lie outside or overlap or, if it is whole, leave gaps."""
    found = []
    for key, stored in metadata.state_dict_metadata.items():
        if not isinstance(stored, TensorStorageMetadata):
            continue
        for chunk in stored.chunks:
            ends = [a + n for a, n in zip(chunk.offsets, chunk.sizes)]
            if any(end > size for end, size in zip(ends, stored.size)):
                found.append(f"{key}: piece {chunk} is not within {tuple(stored.size)}")
        covered = sum(math.prod(chunk.sizes) for chunk in stored.chunks)
        whole = math.prod(stored.size)
        if is_whole and covered != whole:
            found.append(f"{key}: the pieces have {covered} elements, and the tensor {whole}")
        found += [f"{key}: pieces overlap: {one} {two}" for one, two in _overlaps(stored)]
    return found


def _overlaps(stored):
    if len(stored.chunks) < 2 or not stored.size:
        return
    dim = max(range(len(stored.size)), key=lambda d: stored.size[d])
    active = []
    for chunk in sorted(stored.chunks, key=lambda c: c.offsets[dim]):
        active = [one for one in active if one.offsets[dim] + one.sizes[dim] > chunk.offsets[dim]]
        yield from ((one, chunk) for one in active if overlap(one, chunk) is not None)
        active.append(chunk)
