"""The file format safetensors: the length of a header as 8 bytes, the header in JSON, the data."""

from __future__ import annotations

import json
import struct

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from rushlight import Tensor

CODES = {
    rushlight.bool: "BOOL", rushlight.uint8: "U8", rushlight.int8: "I8", rushlight.int16: "I16",
    rushlight.int32: "I32", rushlight.int64: "I64", rushlight.float16: "F16",
    rushlight.bfloat16: "BF16", rushlight.float32: "F32", rushlight.float64: "F64",
    rushlight.complex64: "C64", rushlight.complex128: "C128",
}  # fmt: skip
DTYPES = {code: dtype for dtype, code in CODES.items()}


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


def _bytes(t):
    if t.numel() == 0:
        return b""
    with rushlight.no_grad():
        t = t.detach().cpu().contiguous().reshape(-1).resolve_conj().resolve_neg()
    if t.storage_offset() or t.untyped_storage().nbytes() != t.numel() * t.element_size():
        t = t.clone()
    return bytes(t.untyped_storage())
