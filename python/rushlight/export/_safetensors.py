"""The tensors of a program's file, in the layout of safetensors."""

import json
import math
import struct

import rushlight
from rushlight import _safetensors
from rushlight._safetensors import DTYPES

_ALIGNMENT = 64
_MOST_DIMS = 64


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
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        need(False, "the header of its tensors is no JSON")
    need(isinstance(header, dict), "the header of its tensors is no object")
    body = memoryview(data)[8 + length :]
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        need(isinstance(entry, dict), f"the entry of {name}")
        dtype, shape, span = (entry.get(k) for k in ("dtype", "shape", "data_offsets"))
        need(isinstance(dtype, str) and dtype in DTYPES, f"dtype {dtype!r} of {name}")
        need(_naturals(shape) and _naturals(span) and len(span) == 2, f"the entry of {name}")
        need(len(shape) <= _MOST_DIMS, f"{name} has {len(shape)} dims")
        dtype = DTYPES[dtype]
        size = math.prod(shape) * dtype.itemsize
        need(span[0] <= span[1] <= len(body) and span[1] - span[0] == size, f"the bytes of {name}")
        part = bytearray(body[span[0] : span[1]])
        if size == 0:
            found[name] = rushlight.empty(shape, dtype=dtype)
            continue
        if dtype is rushlight.bool:
            need(max(part) <= 1, f"an element of {name} is no bool")
        found[name] = rushlight.frombuffer(part, dtype=dtype).reshape(shape)
    return found


def _naturals(values):
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**62 for v in values)
