"""Tensors in the layout of safetensors: the length of a header in JSON, the header, the bytes."""

import json
import math
import struct

import rushlight

_NAMES = {
    rushlight.bool: "BOOL", rushlight.uint8: "U8", rushlight.int8: "I8", rushlight.int16: "I16",
    rushlight.int32: "I32", rushlight.int64: "I64", rushlight.float16: "F16",
    rushlight.bfloat16: "BF16", rushlight.float32: "F32", rushlight.float64: "F64",
    rushlight.complex64: "C64", rushlight.complex128: "C128",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_ALIGNMENT = 64
_MOST_DIMS = 64


def write(out, tensors, before=0):
    """Write tensors by name; their elements begin `before` bytes past a multiple of 64."""
    header, at = {}, 0
    # Without gaps, as the format has it: those of large elements first, so that all are aligned.
    tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].element_size()))
    for name, t in tensors.items():
        if t.device.type == "meta":
            raise ValueError(f"save: {name} is on the meta device and has no elements")
        if t.is_sparse:
            raise ValueError(f"save: {name} is sparse")
        begin, at = at, at + t.numel() * t.element_size()
        header[name] = {"dtype": _NAMES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [begin, at]}  # fmt: skip
    text = json.dumps(header).encode()
    text += b" " * (-(before + 8 + len(text)) % _ALIGNMENT)
    out.write(struct.pack("<Q", len(text)))
    out.write(text)
    for t in tensors.values():
        with rushlight.no_grad():
            plain = t.detach().cpu().contiguous().reshape(-1)
        out.write(_bytes(plain))


def _bytes(t):
    if t.numel() == 0:
        return b""
    if t.storage_offset() or t.untyped_storage().nbytes() != t.numel() * t.element_size():
        t = t.clone()
    return bytes(t.untyped_storage())


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
        need(isinstance(dtype, str) and dtype in _DTYPES, f"dtype {dtype!r} of {name}")
        need(_naturals(shape) and _naturals(span) and len(span) == 2, f"the entry of {name}")
        need(len(shape) <= _MOST_DIMS, f"{name} has {len(shape)} dims")
        dtype = _DTYPES[dtype]
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
