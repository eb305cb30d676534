"""What a checkpoint has: the object in its file `.metadata`.

Names and fields are torch's, so that either reads the other's files.
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Size, Tensor
    from rushlight.types import _dtype, _layout


@dataclass
class ChunkStorageMetadata:
    """A piece of a tensor: its first indices and its sizes."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(enum.Enum):
    """How a memory format is written into files."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: rushlight.contiguous_format,
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: rushlight.channels_last,
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: rushlight.preserve_format,
}


@dataclass
class TensorProperties:
    """What is the same in all pieces of a tensor."""

    dtype: _dtype = field(default_factory=rushlight.get_default_dtype)
    layout: _layout = rushlight.strided
    requires_grad: bool = False
    memory_format: rushlight.memory_format = rushlight.contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple[Any, ...]:
        code = next(code for code, form in _FORMATS.items() if form == self.memory_format)
        return self.dtype, self.layout, self.requires_grad, code, self.pin_memory

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        self.memory_format = _FORMATS[code]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(
            dtype=tensor.dtype, layout=tensor.layout, requires_grad=tensor.requires_grad
        )


@dataclass
class TensorStorageMetadata:
    """A tensor: its properties, the sizes of the whole, and its pieces."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """What is no tensor, and is stored as `rushlight.save` writes it."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict


@dataclass
class StorageMeta:
    """Which checkpoint it is."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """What a checkpoint has.

    Args:
        state_dict_metadata: by key, the tensor or the object.
        planner_data: what the planner keeps: by key, its path in nested dicts and lists.
        storage_data: what the storage keeps: by MetadataIndex, file, offset and length.
        storage_meta: which checkpoint it is.
        version: that of the format.
    """

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True, init=False)
class MetadataIndex:
    """Names an object, or a piece of a tensor.

    Args:
        fqn: the key.
        offset: the piece's first indices.
        index: where it is expected in the list of pieces; no part of the name.
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else rushlight.Size(offset))
        object.__setattr__(self, "index", index)


__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]
