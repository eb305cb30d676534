"""The file format safetensors: the length of a header as 8 bytes, the header in JSON, the data."""

from __future__ import annotations

import json
import math
import struct

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any, BinaryIO

    from rushlight import Tensor

CODES = {
    rushlight.bool: "BOOL", rushlight.uint8: "U8", rushlight.int8: "I8", rushlight.int16: "I16",
    rushlight.int32: "I32", rushlight.int64: "I64", rushlight.float16: "F16",
    rushlight.bfloat16: "BF16", rushlight.float32: "F32", rushlight.float64: "F64",
    rushlight.complex64: "C64", rushlight.complex128: "C128",
}  # fmt: skip
DTYPES = {code: dtype for dtype, code in CODES.items()}
_MOST_DIMS = 64


def write(
    out: BinaryIO,
    tensors: dict[str, Tensor],
    about: dict[str, str] | None = None,
    before: int = 0,
    alignment: int = 8,
) -> None:
    """Write tensors by name, one after the other, and texts about them.

    Their elements begin `before` bytes past a multiple of `alignment`.
    """
    header: dict[str, Any] = {} if about is None else {"__metadata__": about}
    end = 0
    for name, t in tensors.items():
        begin, end = end, end + t.numel() * t.element_size()
        header[name] = {"dtype": CODES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [begin, end]}  # fmt: skip
    text = json.dumps(header).encode()
    text += b" " * (-(before + 8 + len(text)) % alignment)
    out.write(struct.pack("<Q", len(text)))
    out.write(text)
    for t in tensors.values():
        out.write(_bytes(t))


def entries_of(
    text: bytes, size: int, need: Callable[..., None], codes: Container[str] = DTYPES
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """({name: {"dtype", "shape", "data_offsets"}}, texts about them) of a header.

    Args:
        text: the header.
        size: of the data that follow it, in bytes.
        need: need(condition, what is wrong) raises where the condition does not hold.
        codes: the dtypes that may be in the file.
    """
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        need(False, f"the header is damaged: {error}")
    need(isinstance(header, dict), "the header is no object")
    about = header.pop("__metadata__", {})
    need(
        isinstance(about, dict) and all(isinstance(value, str) for value in about.values()),
        "what the header says about the file is no texts by name",
    )
    for name, entry in header.items():
        need(isinstance(entry, dict), f"the entry of {name}")
        dtype, shape, span = (entry.get(k) for k in ("dtype", "shape", "data_offsets"))
        need(isinstance(dtype, str) and dtype in codes, f"dtype {dtype!r} of {name}")
        need(_naturals(shape) and _naturals(span) and len(span) == 2, f"the entry of {name}")
        need(len(shape) <= _MOST_DIMS, f"{name} has {len(shape)} dims")
        need(span[0] <= span[1] <= size, f"the bytes of {name}: the file ends early")
        bytes_each = DTYPES[dtype].itemsize if dtype in DTYPES else 1
        taken = math.prod(shape) * bytes_each
        need(span[1] - span[0] == taken, f"{name}: {span[1] - span[0]} bytes for sizes {shape}")
    return header, about


def _naturals(values):
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**62 for v in values)


def _bytes(t):
    if t.numel() == 0:
        return b""
    with rushlight.no_grad():
        t = t.detach().cpu().contiguous().reshape(-1).resolve_conj().resolve_neg()
    if t.storage_offset() or t.untyped_storage().nbytes() != t.numel() * t.element_size():
        t = t.clone()
    return bytes(t.untyped_storage())
