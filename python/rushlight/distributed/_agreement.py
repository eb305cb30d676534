"""How ranks see that they call the same operation: 32 bytes from each before its data, which in
small groups bring tensors of a few elements with them.

That costs 5 us on one machine, and turns what would be a hang, a crash of MPI or wrong numbers into
an error that says what each rank has called, and where.
"""

from __future__ import annotations

import os
import struct
import zlib

import rushlight
from rushlight.distributed._errors import DistBackendError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup

_HEADER = struct.Struct("<IbbbbiqIi4x")
_TEXT_BYTES = 512
_ENVELOPE = 256  # bytes of header and small tensor; always as many, so that MPI can compare
_LARGEST_GROUP = 16  # beyond it, headers travel alone
_DTYPES = {
    dtype: number
    for number, dtype in enumerate(
        (
            rushlight.float32, rushlight.float64, rushlight.float16, rushlight.bfloat16,
            rushlight.complex64, rushlight.complex128, rushlight.uint8, rushlight.int8,
            rushlight.int16, rushlight.int32, rushlight.int64, rushlight.bool,
            rushlight.uint16, rushlight.uint32, rushlight.uint64, rushlight.complex32,
            rushlight.float8_e4m3fn, rushlight.float8_e5m2, rushlight.float8_e4m3fnuz,
            rushlight.float8_e5m2fnuz, rushlight.float8_e8m0fnu,
        )
    )
}  # fmt: skip


def checks_everything() -> bool:
    """Is TORCH_DISTRIBUTED_DEBUG=DETAIL set?"""
    return os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"


class Call:
    """An operation as all members must call it.

    Args:
        name: its name.
        tensor: what it works on, whose dtype and number of elements must agree.
        op: how tensors are reduced.
        root: the member that gives or gets.
        count: number of elements, where that is not the tensor's; -1: may differ.
        tag: a message's.
    """

    __slots__ = ("name", "tensor", "op", "root", "count", "tag")

    def __init__(
        self,
        name: str,
        tensor: Tensor | None = None,
        op: Any = None,
        root: Any = None,
        count: Any = None,
        tag: Any = None,
    ) -> None:
        self.name, self.tensor, self.op, self.root = name, tensor, op, root
        self.count = count if count is not None else 0 if tensor is None else tensor.numel()
        self.tag = tag

    def header(self) -> Any:
        """What must be equal, as bytes. DETAIL adds the shape."""
        tensor, shape = self.tensor, 0
        if tensor is not None and self.count >= 0 and checks_everything():
            shape = zlib.crc32(str(tuple(tensor.shape)).encode()) | 1
        return _HEADER.pack(
            zlib.crc32(self.name.encode()),
            -1 if tensor is None else _DTYPES[tensor.dtype],
            -1 if self.op is None else self.op.value,
            0,
            0,
            -1 if self.root is None else self.root,
            self.count,
            shape,
            0,
        )

    def text(self) -> str:
        """The operation with its arguments, for messages."""
        words = [self.name]
        if self.op is not None:
            words[0] += f"({self.op.name})"
        if self.root is not None:
            words.append(f"(root {self.root})")
        if self.tensor is not None:
            dtype = str(self.tensor.dtype).partition(".")[2]
            words.append(f"of {dtype} {list(self.tensor.shape)}")
        return " ".join(words)


def fits_agreement(group: ProcessGroup | None, tensor: Tensor) -> Any:
    """Is a tensor so small that it travels with the header?"""
    if tensor.device.type != "cpu":
        return False
    room = _ENVELOPE - _HEADER.size
    size = group._transport.size
    return 1 < size <= _LARGEST_GROUP and 0 < tensor.numel() * tensor.element_size() <= room


def agree(group: ProcessGroup | None, call: Any, work: Any, enclosed: Any = b"") -> Iterator[Any]:
    """Steps that end when all members call the same.

    Args:
        group, call, work: what is called.
        enclosed: the bytes of a tensor for which `fits_agreement`.

    Returns:
        What all members have enclosed: for each, bytes of which the first are its tensor's.

    Raises:
        DistBackendError: one calls another operation, or with other arguments.
    """
    transport, header = group._transport, _HEADER.size
    if transport.size == 1:
        return None
    length = _ENVELOPE if transport.size <= _LARGEST_GROUP else header
    mine = call.header()
    gathered, requests = transport.gather_bytes((mine + enclosed).ljust(length, b"\0"))
    yield requests
    starts = range(0, len(gathered), length)
    if all(gathered[start : start + header] == mine for start in starts):
        return [gathered[start + header : start + length] for start in starts]
    text = f"{call.text()} at {work.site}".encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES)
    texts, requests = transport.gather_bytes(text)
    yield requests
    raise DistBackendError(
        f"{work.describe()}: the ranks disagree: {_who_says_what(group._ranks, texts)}"
    )


def _who_says_what(ranks, texts):
    said = {}
    for position, rank in enumerate(ranks):
        text = bytes(texts[position * _TEXT_BYTES : (position + 1) * _TEXT_BYTES])
        said.setdefault(text.decode(errors="replace").strip(), []).append(rank)
    parts = []
    for text, those in sorted(said.items(), key=lambda item: -len(item[1])):
        who = f"rank {those[0]}" if len(those) == 1 else f"ranks {', '.join(map(str, those))}"
        parts.append(f"{who} called {text}")
    return "; ".join(parts)
