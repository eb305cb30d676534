"""Checkpoints of tensors in files of the format safetensors, as the Hugging Face hub has them."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
from pathlib import Path

import rushlight
from rushlight.distributed.checkpoint import _pieces as pieces, _safetensors
from rushlight.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
    SerializationFormat,
    _finished,
    give_tensor,
)
from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed.checkpoint.storage import WriteResult
    from rushlight.futures import Future
    from rushlight.types import _dtype

_INDEX = "model.safetensors.index.json"
_SUFFIX = ".safetensors"
_SHARDED = "sharded"


def _file_name(index, count, shard=None):
    name = f"model-{index:05}-of-{count:05}{_SUFFIX}"
    return name if shard is None else f"shard-{shard:05}-{name}"


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors into files of the format safetensors.

    Args:
        path: the folder.
        fqn_to_index_mapping: the number, from 1, of the file for each key; one file by default.
        thread_count: how many threads write.
        save_distributed: each process writes its parts into files of its own; else one process
            alone has tensors to write.
        enable_consolidation: put the parts together: they lie in path/sharded, and whole tensors
            in path.
        thread_count_consolidation: how many threads put together.
    """

    save_distributed: bool
    enable_consolidation: bool
    thread_count_consolidation: int
    whole_path: Path
    path: Path

    def __init__(
        self,
        path: str | os.PathLike[str],
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(
            path, thread_count=thread_count, serialization_format=SerializationFormat.SAFETENSORS
        )
        if enable_consolidation and not save_distributed:
            raise ValueError(
                "HuggingFaceStorageWriter: enable_consolidation: save_distributed=True"
            )
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed, self.enable_consolidation = save_distributed, enable_consolidation
        self.thread_count_consolidation = thread_count_consolidation
        self.whole_path = self.path
        if enable_consolidation:
            self.path = self.path / _SHARDED

    @property
    def metadata_path(self) -> str:
        """The name of the file that says which file has which tensor."""
        return _INDEX

    @property
    def consolidated_output_path(self) -> str | None:
        """The folder of whole tensors, if parts are put together."""
        return str(self.whole_path) if self.enable_consolidation else None

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Number the processes that write files of their own."""
        if not self.save_distributed and sum(bool(plan.items) for plan in plans) > 1:
            raise ValueError(
                "HuggingFaceStorageWriter: several processes have tensors to write into the same "
                "files: save_distributed=True"
            )
        return [
            dataclasses.replace(plan, storage_data=i if self.save_distributed else None)
            for i, plan in enumerate(plans, 1)
        ]

    def _file_of(self, fqn):
        if self.fqn_to_index_mapping is None:
            return 1
        if fqn not in self.fqn_to_index_mapping:
            raise ValueError(f"HuggingFaceStorageWriter: fqn_to_index_mapping has no {fqn}")
        return self.fqn_to_index_mapping[fqn]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this process's files."""
        count = max((self.fqn_to_index_mapping or {"": 1}).values())
        files: dict[str, list[Any]] = {}
        for item in plan.items:
            name = _file_name(self._file_of(item.index.fqn), count, plan.storage_data)
            files.setdefault(name, []).append(item)
        return self._write_files(files, planner)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index of whole tensors, and put them together first if that is wanted."""
        if not self.save_distributed:
            found = {r.index.fqn: r.storage_data.relative_path for part in results for r in part}
            size = sum(r.size_in_bytes for part in results for r in part)
            self._write_index(found, size)
        elif self.enable_consolidation:
            self._consolidate(list(metadata.state_dict_metadata))

    def _write_index(self, files, size):
        with open(self.whole_path / _INDEX, "w") as stream:
            json.dump({"metadata": {"total_size": size}, "weight_map": files}, stream, indent=2)

    def _consolidate(self, names):
        count = max((self.fqn_to_index_mapping or {"": 1}).values())
        files: dict[str, list[str]] = {}
        for name in names:
            files.setdefault(_file_name(self._file_of(name), count), []).append(name)
        reader = HuggingFaceStorageReader(self.path)
        with concurrent.futures.ThreadPoolExecutor(self.thread_count_consolidation) as pool:
            sizes = list(pool.map(lambda file: self._write_whole(reader, file, files[file]), files))
        self._write_index({name: file for file in files for name in files[file]}, sum(sizes))

    def _write_whole(self, reader, file, names):
        tensors = read_whole(reader, names)
        with open(self.whole_path / file, "wb") as stream:
            _safetensors.write(stream, tensors, {"format": "pt"})
            self._sync(stream)
        return sum(tensor.nbytes for tensor in tensors.values())


def read_whole(reader: HuggingFaceStorageReader, names: list[str]) -> dict[str, Tensor]:
    """Whole tensors by name, from pieces in any number of files."""
    metadata, whole = reader.read_metadata(), {}
    for name in names:
        about = metadata.state_dict_metadata[name]
        whole[name] = rushlight.empty(about.size, dtype=about.properties.dtype)
        for chunk in about.chunks:
            path = metadata.storage_data[MetadataIndex(name, chunk.offsets)].relative_path
            with open(reader.path / path, "rb") as stream:
                part = _safetensors.Header(stream).read(stream, name)
            pieces.narrowed(whole[name], chunk.offsets, chunk.sizes).copy_(part)
    return whole


@dataclasses.dataclass
class _HFStorageInfo:
    """Where a piece is."""

    relative_path: str
    shape: rushlight.Size
    dtype: _dtype


class HuggingFaceStorageReader(FileSystemReader):
    """Reads tensors from all files of the format safetensors in a folder.

    Args:
        path: the folder.
        thread_count: how many threads read.
    """

    thread_count: int

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the files have, from their headers."""
        files = sorted(path.name for path in Path(self.path).glob(f"*{_SUFFIX}"))
        if not files:
            raise FileNotFoundError(f"{self.path} has no files *{_SUFFIX}")
        tensors: dict[str, Any] = {}
        places: dict[MetadataIndex, _HFStorageInfo] = {}
        for name in files:
            with open(self.path / name, "rb") as stream:
                header = _safetensors.Header(stream)
            for key, first in header.offsets().items():
                shape, dtype = rushlight.Size(header.shape(key)), header.dtype(key)
                about = tensors.setdefault(
                    key, TensorStorageMetadata(TensorProperties(dtype), shape, [])
                )
                about.chunks.append(ChunkStorageMetadata(rushlight.Size(first), shape))
                ends = [begin + length for begin, length in zip(first, shape)]
                about.size = rushlight.Size(map(max, zip(about.size, ends)))
                places[MetadataIndex(key, first)] = _HFStorageInfo(name, shape, dtype)
        meta = StorageMeta(checkpoint_id=str(self.path), load_id=self.load_id)
        return Metadata(tensors, storage_data=places, storage_meta=meta)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what a plan wants, each file once."""
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            info = self.storage_data[item.storage_index]
            by_file.setdefault(info.relative_path, []).append(item)

        def read(name):
            with open(self._within(name), "rb") as stream:
                header = _safetensors.Header(stream)
                for item in by_file[name]:
                    stored = self._stored(header, stream, item.storage_index.fqn)
                    give_tensor(item, stored, planner)

        with concurrent.futures.ThreadPoolExecutor(max(1, self.thread_count)) as pool:
            list(pool.map(read, by_file))
        return _finished(None)

    def _stored(self, header, stream, name):
        if header.code(name) in _safetensors.BYTES_OF:
            raise ValueError(
                f"{name} has dtype {header.code(name)}: QuantizedHuggingFaceStorageReader reads it"
            )
        return header.read(stream, name)


# Values of the four bits of MXFP4: sign, two bits of exponent, one of mantissa.
_FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def _float8(byte, exponent_bits, bias):
    """The number that a byte stands for."""
    mantissa_bits = 7 - exponent_bits
    sign = -1.0 if byte & 0x80 else 1.0
    exponent = (byte & 0x7F) >> mantissa_bits
    mantissa = byte & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if exponent_bits == 4 and byte & 0x7F == 0x7F:  # E4M3 has no infinities
        return float("nan")
    if exponent_bits == 5 and exponent == top:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def _decoded(data, code):
    """Numbers of bytes in float8."""
    if code == "F8_E8M0":
        return rushlight.ldexp(rushlight.ones(()), data.to(rushlight.int32) - 127)
    bits, bias = (4, 7) if code == "F8_E4M3" else (5, 15)
    table = rushlight.tensor([_float8(byte, bits, bias) for byte in range(256)])
    return table[data.long()]


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads quantized tensors as numbers: blocks of float8 with a scale each, and MXFP4.

    `X.weight` with `X.weight_scale_inv` has a scale for each square of `block_size`;
    `X_blocks` of bytes with `X_scales` has two numbers of four bits in each byte, and an exponent
    for each row of them.

    Args:
        path: the folder, with `model.safetensors.index.json`.
        thread_count: how many threads read.
        target_dtype: in which dtype numbers are computed.
        block_size: the side of a block.
    """

    target_dtype: _dtype
    block_size: int

    def __init__(
        self,
        path: str | os.PathLike[str],
        thread_count: int = 1,
        target_dtype: _dtype = rushlight.float32,
        block_size: int = 128,
    ) -> None:
        super().__init__(path, thread_count)
        self.target_dtype, self.block_size = target_dtype, block_size
        self._files: dict[str, str] = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the files have; sizes of MXFP4 are those of the numbers."""
        with open(self.path / _INDEX) as stream:
            self._files = json.load(stream).get("weight_map", {})
        metadata = super().read_metadata()
        for name, about in metadata.state_dict_metadata.items():
            if name.endswith("_blocks") and self._scale_of(name) is not None:
                *rows, groups, width = about.size
                about.size = rushlight.Size([*rows, groups * width * 2])
                first = rushlight.Size([0] * len(about.size))
                about.chunks = [ChunkStorageMetadata(first, about.size)]
                old = next(i for i in metadata.storage_data if i.fqn == name)
                metadata.storage_data[MetadataIndex(name, first)] = metadata.storage_data.pop(old)
        return metadata

    def _scale_of(self, name):
        """The name of a tensor's scales; None if it is not quantized."""
        for ending, scales in ((".weight", ".weight_scale_inv"), ("_blocks", "_scales")):
            found = name.removesuffix(ending) + scales
            if name.endswith(ending) and found in self._files:
                return found
        return None

    def _stored(self, header, stream, name):
        scale_name = self._scale_of(name)
        data = header.read(stream, name)
        if scale_name is None:
            code = header.code(name)
            return _decoded(data, code) if code in _safetensors.BYTES_OF else data
        with open(self._within(self._files[scale_name]), "rb") as other:
            about = _safetensors.Header(other)
            scales = about.read(other, scale_name)
        if name.endswith("_blocks"):
            return self._of_blocks(data, scales)
        code = header.code(name)
        values = _decoded(data, code) if code in _safetensors.BYTES_OF else data.float()
        return self._scaled(values, scales)

    def _scaled(self, values, scales):
        size = self.block_size
        spread = scales.repeat_interleave(size, 0).repeat_interleave(size, 1)
        return (values * spread[: values.size(0), : values.size(1)]).to(self.target_dtype)

    def _of_blocks(self, blocks, exponents):
        table = rushlight.tensor(_FP4 + [-v for v in _FP4], dtype=self.target_dtype)
        values = rushlight.stack([table[(blocks & 15).long()], table[(blocks >> 4).long()]], -1)
        scaled = rushlight.ldexp(
            values.flatten(-2), exponents.to(rushlight.int32).unsqueeze(-1) - 127
        )
        return scaled.flatten(-2).to(self.target_dtype)


__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]
