"""Files of safetensors that hold a checkpoint: what is read of them part by part."""

from __future__ import annotations

import json
import os
import struct

import rushlight
from rushlight import _safetensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from rushlight import Tensor
    from rushlight.types import _dtype

# As torch's files have them: no complex numbers.
_DTYPES = {c: dtype for c, dtype in _safetensors.DTYPES.items() if not dtype.is_complex}
# Dtypes that are read as their bytes.
BYTES_OF = {"F8_E4M3": rushlight.uint8, "F8_E5M2": rushlight.uint8, "F8_E8M0": rushlight.uint8}
_LARGEST_HEADER = 100_000_000
SHARDING = "DCP_SHARDING_INFO"


def sharding_info(offsets: dict[str, list[int]]) -> dict[str, str]:
    """What torch writes beside pieces of tensors: the first indices of each."""
    info = {name: {"saved_offsets": first} for name, first in offsets.items()}
    return {SHARDING: json.dumps(info), "DCP_VERSION": "1.0", "format": "pt"}


def write(stream: BinaryIO, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    """Write tensors by name, and texts about them.

    Raises:
        ValueError: the format has no such dtype.
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES.values():
            raise ValueError(f"safetensors: {name} has dtype {tensor.dtype}")
    _safetensors.write(stream, tensors, about)


class Header:
    """What a file has.

    Args:
        stream: the file, of which the header is read.

    Raises:
        ValueError: it is no file of this format.
    """

    def __init__(self, stream: BinaryIO) -> None:
        def need(condition, what):
            if not condition:
                raise ValueError(f"{stream.name}: {what}") from None

        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        need(2 <= length <= _LARGEST_HEADER, "no safetensors file")
        text = stream.read(length)
        self._begin = 8 + length
        size = stream.seek(0, os.SEEK_END) - self._begin
        self.entries, self.about = _safetensors.entries_of(
            text, size, need, {**_DTYPES, **BYTES_OF}
        )

    def dtype(self, name: str) -> _dtype:
        """The dtype that a tensor is read in."""
        code = self.entries[name]["dtype"]
        return _DTYPES.get(code) or BYTES_OF[code]

    def code(self, name: str) -> str:
        """The dtype as the file has it."""
        return self.entries[name]["dtype"]

    def shape(self, name: str) -> list[int]:
        """The sizes of a tensor."""
        return self.entries[name]["shape"]

    def offsets(self) -> dict[str, list[int]]:
        """The first indices of pieces; zeros in files of whole tensors."""
        info = json.loads(self.about.get(SHARDING, "{}"))
        return {
            name: info.get(name, {}).get("saved_offsets", [0] * len(entry["shape"]))
            for name, entry in self.entries.items()
        }

    def read(self, stream: BinaryIO, name: str) -> Tensor:
        """A tensor of the file."""
        begin, end = self.entries[name]["data_offsets"]
        dtype, shape = self.dtype(name), self.shape(name)
        stream.seek(self._begin + begin)
        data = bytearray(stream.read(end - begin))
        if len(data) != end - begin:
            raise ValueError(f"{stream.name}: {name}: the file ends early")
        if not data:
            return rushlight.empty(shape, dtype=dtype)
        return rushlight.frombuffer(data, dtype=dtype).view(shape)
