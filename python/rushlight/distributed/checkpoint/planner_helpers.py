"""What to read for pieces of a tensor."""

from __future__ import annotations

from rushlight.distributed.checkpoint import _pieces as pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        TensorStorageMetadata,
    )
    from rushlight.distributed.checkpoint.planner import ReadItem


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """What to read for pieces of a tensor from those that were written.

    Args:
        fqn: the tensor's name.
        checkpoint_md: the tensor in the checkpoint.
        local_chunks: the pieces that are wanted.
    """
    items = []
    for number, chunk in enumerate(local_chunks):
        items += pieces.read_items_of_chunk(fqn, checkpoint_md, chunk, number)
    return items


__all__ = ["create_read_items_for_chunk_list"]
