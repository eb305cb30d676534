"""The tensors of a program's file, in the layout of safetensors."""

import struct

import rushlight
from rushlight import _safetensors
from rushlight._safetensors import DTYPES

_ALIGNMENT = 64


def write(out, tensors, before=0):
    """Write tensors by name; their elements begin `before` bytes past a multiple of 64."""
    for name, t in tensors.items():
        if t.device.type == "meta":
            raise ValueError(f"save: {name} is on the meta device and has no elements")
        if t.is_sparse:
            raise ValueError(f"save: {name} is sparse")
    # Without gaps, as the format has it: those of large elements first, so that all are aligned.
    tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].element_size()))
    _safetensors.write(out, tensors, before=before, alignment=_ALIGNMENT)


def read(data, need):
    """Tensors by name. `need(condition, *what)` raises where the data are damaged."""
    need(len(data) >= 8, "the header of its tensors is missing")
    (length,) = struct.unpack("<Q", data[:8])
    need(length <= len(data) - 8, "the header of its tensors is longer than the file")
    body = memoryview(data)[8 + length :]
    entries, _ = _safetensors.entries_of(data[8 : 8 + length], len(body), need)
    found = {}
    for name, entry in entries.items():
        dtype, shape, (begin, end) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        part = bytearray(body[begin:end])
        if not part:
            found[name] = rushlight.empty(shape, dtype=dtype)
            continue
        if dtype is rushlight.bool:
            need(max(part) <= 1, f"an element of {name} is no bool")
        found[name] = rushlight.frombuffer(part, dtype=dtype).reshape(shape)
    return found
