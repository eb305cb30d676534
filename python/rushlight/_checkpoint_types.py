"""What a checkpoint consists of besides plain Python values: names, storages and tensors."""

from __future__ import annotations

import ctypes
import math
import pickle

import rushlight
from rushlight._absent_dtypes import CARRIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor, TypedStorage, UntypedStorage
    from rushlight.types import _dtype

STORAGE_DTYPES = {
    "BoolStorage": rushlight.bool,
    "ByteStorage": rushlight.uint8,
    "CharStorage": rushlight.int8,
    "ShortStorage": rushlight.int16,
    "IntStorage": rushlight.int32,
    "LongStorage": rushlight.int64,
    "HalfStorage": rushlight.float16,
    "BFloat16Storage": rushlight.bfloat16,
    "FloatStorage": rushlight.float32,
    "DoubleStorage": rushlight.float64,
    "ComplexFloatStorage": rushlight.complex64,
    "ComplexDoubleStorage": rushlight.complex128,
}
STORAGE_NAMES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}
DTYPES = {str(dtype).rpartition(".")[2]: dtype for dtype in STORAGE_NAMES} | CARRIED

# Storages of quantized tensors: a file says by the tensor what the integers stand for.
QUANTIZED_STORAGES = {
    "QInt8Storage": rushlight.int8,
    "QUInt8Storage": rushlight.uint8,
    "QInt32Storage": rushlight.int32,
}
STORAGE_DTYPES |= QUANTIZED_STORAGES

_MAX_DIMS = 64
_ONLY_ZERO_AND_ONE = bytes([0]) + bytes([1]) * 255


def storage_of(
    buffer: bytearray | memoryview, dtype: _dtype | None, swap_bytes: bool = False
) -> Any:
    """Return a storage on the CPU over a writable `buffer`, after making its contents valid.

    A bool must be 0 or 1, which a file need not respect.
    """
    if dtype is rushlight.bool:
        given = bytes(buffer)
        valid = given.translate(_ONLY_ZERO_AND_ONE)
        if valid != given:
            buffer[:] = valid
    if swap_bytes:
        _swap(buffer, dtype.itemsize // (2 if dtype.is_complex else 1))
    if len(buffer) == 0:
        return rushlight.empty(0, dtype=rushlight.uint8).untyped_storage()
    return rushlight.frombuffer(buffer, dtype=rushlight.uint8).untyped_storage()


def _swap(buffer, width):
    for low in range(width // 2):
        high = width - 1 - low
        # Copies, for parts of a memoryview are views of it.
        lower, higher = bytes(buffer[low::width]), bytes(buffer[high::width])
        buffer[low::width], buffer[high::width] = higher, lower


def bytes_of(storage: Any) -> bytes | memoryview:
    """Return the bytes of a storage on the CPU without copying; keep the storage alive."""
    size = storage.nbytes()
    if size == 0:
        return b""
    return memoryview((ctypes.c_ubyte * size).from_address(storage.data_ptr())).cast("B")


def typed_storage(untyped: UntypedStorage, dtype: _dtype | None) -> TypedStorage | UntypedStorage:
    """Return what a program gets for a storage of a file: with its dtype, where it has one."""
    if dtype is None:
        return untyped
    return rushlight.TypedStorage(wrap_storage=untyped, dtype=dtype)


def check_geometry(offset: int, size: Sequence[int], stride: Sequence[int]) -> None:
    """Raise an error if these cannot be the numbers of a tensor."""
    if len(size) != len(stride) or len(size) > _MAX_DIMS:
        raise pickle.UnpicklingError(
            f"a tensor has {len(size)} sizes and {len(stride)} strides, of at most {_MAX_DIMS}"
        )
    if not all(type(n) is int and 0 <= n < 2**63 for n in (offset, *size, *stride)):
        raise pickle.UnpicklingError("a tensor has an offset, size or stride that is impossible")


def last_place(offset: int, size: Sequence[int], stride: Sequence[int]) -> int:
    """Return where the last element is, if there is one."""
    return offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


def tensor_of(
    storage: UntypedStorage, dtype: _dtype, offset: int, size: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """Return the tensor that views `storage` in the given way, if the way is possible at all."""
    check_geometry(offset, size, stride)
    itemsize = dtype.itemsize
    last = offset if 0 in size else last_place(offset, size, stride) + 1
    if last * itemsize > storage.nbytes() or math.prod(size) * itemsize >= 2**63:
        raise pickle.UnpicklingError(
            f"a tensor of sizes {size} and strides {stride} at offset {offset} does not fit its"
            f" storage of {storage.nbytes()} bytes"
        )
    return rushlight.storage.tensor_on(storage, dtype, size, stride, offset)
